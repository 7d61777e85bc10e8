// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const invalidVNI = 1 << 24 // a VNI has 24 bits

// Probe returns why this host cannot have tunnels, or nil if it can create devices, pins and sockets. Probe leaves none
// of them behind, and needs the same rights, without a network namespace of its own.
func Probe() error {
	here := func(work func() error) error { return work() }
	k, err := openKernel(here, here)
	if err != nil {
		return err
	}
	return errors.Join(k.checkVXLAN(), k.checkWireGuard(), checkMessages(), k.close())
}

// checkWireGuard makes a WireGuard device and removes it, or opens what the agent needs to encrypt by itself.
func (k *kernel) checkWireGuard() error {
	const name = outerPrefix + "probe"
	lacks, err := k.makeWireGuard(name)
	if err != nil {
		return err
	}
	if !lacks {
		made, there, err := find(k.outer, name, 0)
		if err != nil || !there {
			return err
		}
		return remove(k.outer, made)
	}
	file, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: this kernel has no WireGuard and no TUN devices; load the module wireguard or tun (modprobe wireguard)", err)
	}
	return file.Close()
}

func checkMessages() error {
	socket, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback, Port: messagePort})
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: the two ends talk by UDP port %d, which needs root or CAP_NET_BIND_SERVICE", err, messagePort)
	}
	if err != nil {
		return nil // IPv6 may be off, or another agent has tunnels
	}
	return socket.Close()
}

// checkVXLAN asks for a VXLAN device with an invalid VNI. ERANGE means that the kernel lacks nothing else.
func (k *kernel) checkVXLAN() error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "vxlan")
		info.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
			data.Uint32(unix.IFLA_VXLAN_ID, invalidVNI)
			return nil
		})
		return nil
	})
	switch err := change(k.outer, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, linkHeader(0, 0, 0), attributes); {
	case errors.Is(err, unix.ERANGE):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no VXLAN; load the module vxlan (modprobe vxlan), or build the kernel with CONFIG_VXLAN", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("tunnels need root or CAP_NET_ADMIN: %w", err)
	default:
		return fmt.Errorf("cannot find out whether the kernel has VXLAN: %w", err)
	}
}
