// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/route"
)

// mostUplinks bounds the attempts of a machine with many.
const mostUplinks = 8

// way is an uplink with this machine's address on it. The zero value leaves the choice to the kernel.
type way struct {
	device string
	source netip.Addr
}

// devices returns the devices with a default route in any table, or none where a program may not read routes.
func devices() []net.Interface {
	indices, err := defaultRoutes()
	if err != nil {
		return nil
	}
	var found []net.Interface
	for _, index := range indices[:min(len(indices), mostUplinks)] {
		if device, err := net.InterfaceByIndex(index); err == nil { // else it disappeared
			found = append(found, *device)
		}
	}
	return found
}

// waysTo returns the ways to an address: the kernel's choice first, and then each device that is another.
func waysTo(to netip.AddrPort, devices []net.Interface) []way {
	ways := []way{{}}
	if to.Addr().IsLoopback() {
		return ways
	}
	chosen := way{}.sourceTo(to)
	for _, device := range devices {
		by := way{device: device.Name}
		if by.source = by.sourceTo(to); !by.source.IsValid() {
			by.source = addressOn(device, to.Addr().Is4())
		}
		if by.source.IsValid() && by.source != chosen {
			ways = append(ways, by)
		}
	}
	return ways
}

// sourceTo returns the address that the kernel would choose for packets to an address. It sends none.
func (w way) sourceTo(to netip.AddrPort) netip.Addr {
	dialer := net.Dialer{Control: w.bind}
	conn, err := dialer.Dial("udp", to.String())
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// addressOn returns a device's first address of a family, for routes that want one (`ip rule add from`).
func addressOn(device net.Interface, four bool) netip.Addr {
	addresses, _ := device.Addrs()
	for _, each := range addresses {
		prefix, err := netip.ParsePrefix(each.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() && prefix.Addr().Is4() == four {
			return prefix.Addr()
		}
	}
	return netip.Addr{}
}

// bind restricts a socket to the way's device. It is a net.Dialer's Control.
func (w way) bind(_, _ string, socket syscall.RawConn) error {
	if w.device == "" {
		return nil
	}
	var failed error
	err := socket.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), w.device) })
	return errors.Join(err, failed)
}

// named adds the device to an error, unless the kernel chose it.
func (w way) named(err error) error {
	if w.device == "" || err == nil {
		return err
	}
	return fmt.Errorf("over %s: %w", w.device, err)
}

// defaultRoutes returns the indices of the devices, in the order of the kernel's routes.
func defaultRoutes() (indices []int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the routes: %w", err)
	}
	defer conn.Close()
	for _, family := range route.Families {
		all, err := route.All(conn, family)
		if err != nil {
			return nil, err
		}
		for _, each := range all {
			if each.Destination.Bits() == 0 && each.Kind == unix.RTN_UNICAST && !slices.Contains(indices, each.Device) {
				indices = append(indices, each.Device)
			}
		}
	}
	return indices, nil
}
