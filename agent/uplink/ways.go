// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
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
func defaultRoutes() ([]int, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the default routes: %w", err)
	}
	defer conn.Close()
	var indices []int
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		header := make([]byte, unix.SizeofRtMsg)
		header[0] = family
		routes, err := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump}, Data: header,
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read the default routes: %w", err)
		}
		for _, route := range routes {
			found, err := devicesOf(route.Data)
			if err != nil {
				return nil, fmt.Errorf("cannot decode a route: %w", err)
			}
			for _, index := range found {
				if !slices.Contains(indices, index) {
					indices = append(indices, index)
				}
			}
		}
	}
	return indices, nil
}

// devicesOf decodes struct rtmsg and attributes. It returns the devices of a default route, and none of another.
func devicesOf(b []byte) ([]int, error) {
	if len(b) < unix.SizeofRtMsg {
		return nil, fmt.Errorf("%d bytes, expected at least %d", len(b), unix.SizeofRtMsg)
	}
	if b[1] != 0 || b[7] != unix.RTN_UNICAST {
		return nil, nil
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return nil, err
	}
	var devices []int
	for attributes.Next() {
		switch attributes.Type() {
		case unix.RTA_OIF:
			devices = append(devices, int(attributes.Uint32()))
		case unix.RTA_MULTIPATH:
			for hops := attributes.Bytes(); len(hops) >= unix.SizeofRtNexthop; {
				devices = append(devices, int(binary.NativeEndian.Uint32(hops[4:])))
				length := int(binary.NativeEndian.Uint16(hops))
				if length < unix.SizeofRtNexthop || length > len(hops) {
					return nil, fmt.Errorf("a next hop of %d bytes in %d", length, len(hops))
				}
				hops = hops[length:]
			}
		}
	}
	return devices, attributes.Err()
}
