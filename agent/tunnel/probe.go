// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const beyondAll = 1 << 24 // a VNI has 24 bits

// Probe tells why this host could have no tunnels; nil where devices, their pins and sockets can be made. It makes none of
// them, and wants no more rights than they do: no network namespace of its own.
func Probe() error {
	here := func(work func() error) error { return work() }
	k, err := openKernel(here, here)
	if err != nil {
		return err
	}
	return errors.Join(k.knows(), pins{here}.possible(), hears(), k.close())
}

// knows asks for a VXLAN device with an invalid VNI. ERANGE means that the kernel lacks nothing else.
func (k *kernel) knows() error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "vxlan")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Uint32(unix.IFLA_VXLAN_ID, beyondAll)
			return nil
		})
		return nil
	})
	switch err := change(k.outer, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, linkHeader(0, 0, 0), attributes); {
	case errors.Is(err, unix.ERANGE):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no VXLAN; load the module vxlan (modprobe vxlan), or build it with CONFIG_VXLAN", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("tunnels are made by root, or with CAP_NET_ADMIN: %w", err)
	default:
		return fmt.Errorf("the kernel was asked for a VXLAN device that cannot be, and does not say so: %w", err)
	}
}

// hears tries what questions and answers come by.
func hears() error {
	file, err := openOuter(false, 0, beyondAll)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("%w: that wants CAP_NET_RAW and, of a unit of systemd's, AF_PACKET (docs/how-to/far-site.md)", err)
	}
	if err != nil {
		return err
	}
	return file.Close()
}
