// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/agent/tunnel/wireguard"
	"bicast/api/agentv1"
)

const (
	outerPrefix = "bicast-"
	MaxNumber   = 8 // the numbers of a site's tunnels are below
)

// The ends have link-local addresses in the WireGuard device. The kernel takes VXLAN for such an address from this device
// only, so nobody else can send into the tunnel.
var (
	startingAddress  = netip.MustParseAddr("fe80::1")
	answeringAddress = netip.MustParseAddr("fe80::2")
)

func insideOf(starts bool) netip.Addr {
	if starts {
		return startingAddress
	}
	return answeringAddress
}

// outer is an open WireGuard device.
type outer struct {
	wireguard.Device
	link device
}

func (o *outer) close() error {
	if o.Device == nil {
		return nil
	}
	err := o.Device.Close()
	*o = outer{}
	return err
}

func outerName(vni uint32) string { return outerPrefix + strconv.FormatUint(uint64(vni), 10) }

// numberOf returns a tunnel's number at its site.
func numberOf(order *agentv1.Tunnel) int { return int(order.GetVni()-1) % MaxNumber }

// isOuter reports whether a device is the WireGuard device of a tunnel, in the kernel or of an agent.
func isOuter(d device) bool {
	_, err := strconv.ParseUint(strings.TrimPrefix(d.name, outerPrefix), 10, 24)
	return err == nil && strings.HasPrefix(d.name, outerPrefix) && (d.kind == "wireguard" || d.kind == "tun")
}

// openOuter opens the WireGuard device of this name, and makes it if there is none.
func (k *kernel) openOuter(order *agentv1.Tunnel, mtu int, log *slog.Logger) (outer, error) {
	name := outerName(order.GetVni())
	found, there, err := find(k.outer, name, 0)
	if err != nil {
		return outer{}, err
	}
	if there && !isOuter(found) {
		return outer{}, fmt.Errorf("another network device has the name %s: remove it (ip link delete %s)", name, name)
	}
	if there && order.GetClear() && found.kind == "wireguard" {
		if err := remove(k.outer, found); err != nil {
			return outer{}, err
		}
		there = false
	}
	var opened wireguard.Device
	embedded := there && found.kind == "tun"
	if !there && !order.GetClear() {
		embedded, err = k.makeWireGuard(name)
	}
	if err == nil {
		err = k.outside(func() (err error) {
			switch {
			case order.GetClear():
				opened, err = wireguard.Clear(name, mtu)
			case embedded:
				opened, err = wireguard.Embedded(name, mtu, log)
			default:
				opened, err = wireguard.Kernel(name)
			}
			return err
		})
	}
	if err != nil {
		return outer{}, err
	}
	link, there, err := find(k.outer, name, 0)
	if err == nil && !there {
		err = fmt.Errorf("the network device %s disappeared right after its creation", name)
	}
	if err == nil {
		err = errors.Join(plain(k.outside, name, unix.ETHTOOL_SGRO), k.address(link, insideOf(order.GetRemote() != "")), setUp(k.outer, link, mtu))
	}
	if err != nil {
		return outer{}, errors.Join(err, opened.Close())
	}
	return outer{opened, link}, nil
}

// makeWireGuard makes a device in the kernel. It returns true if the kernel has no WireGuard.
func (k *kernel) makeWireGuard(name string) (lacks bool, err error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.IFLA_IFNAME, name)
	attributes.Nested(unix.IFLA_LINKINFO, func(info *netlink.AttributeEncoder) error {
		info.String(unix.IFLA_INFO_KIND, "wireguard")
		return nil
	})
	err = change(k.outer, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, linkHeader(0, 0, 0), attributes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot create the WireGuard device %s: %w", name, err)
	}
	return false, nil
}

// address gives a device its address in the tunnel, and no other.
func (k *kernel) address(d device, inside netip.Addr) error {
	// Where IPv6 is off, it is on in this device.
	k.outside(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/"+d.name+"/disable_ipv6", []byte("0"), 0) })
	none := netlink.NewAttributeEncoder()
	withoutAddresses(none)
	err := change(k.outer, unix.RTM_SETLINK, 0, linkHeader(d.index, 0, 0), none)
	if err == nil {
		header := []byte{unix.AF_INET6, 64, unix.IFA_F_NODAD, unix.RT_SCOPE_LINK, 0, 0, 0, 0}
		putIndex(header[4:], d.index)
		attributes := netlink.NewAttributeEncoder()
		attributes.Bytes(unix.IFA_ADDRESS, inside.AsSlice())
		err = change(k.outer, unix.RTM_NEWADDR, netlink.Create|netlink.Replace, header, attributes)
	}
	if err != nil {
		return fmt.Errorf("cannot give the WireGuard device %s its IPv6 address; the kernel needs IPv6, also where no network has "+
			"it: %w", d.name, err)
	}
	return nil
}
