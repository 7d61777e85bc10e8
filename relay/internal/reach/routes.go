// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Kernel queries the route of each address: the kernel always knows the host's current addresses.
type Kernel struct{ conn *netlink.Conn }

// OpenKernel opens a handle for the calling thread's network namespace.
func OpenKernel() (*Kernel, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot query this host's routes: %w", err)
	}
	return &Kernel{conn}, nil
}

// Close closes the handle.
func (k *Kernel) Close() error { return k.conn.Close() }

// Beyond implements Routes.
func (k *Kernel) Beyond(address netip.Addr) error {
	family, octets := unix.AF_INET6, address.AsSlice()
	if address.Is4() {
		family = unix.AF_INET
	}
	// struct rtmsg, then RTA_DST.
	data := make([]byte, unix.SizeofRtMsg, unix.SizeofRtMsg+4+len(octets))
	data[0], data[1] = byte(family), byte(len(octets)*8)
	data = binary.NativeEndian.AppendUint16(data, uint16(4+len(octets)))
	data = binary.NativeEndian.AppendUint16(data, unix.RTA_DST)
	data = append(data, octets...)
	answers, err := k.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: data,
	})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES):
		return ErrNoRoute // also for blackhole (EINVAL) and prohibit routes (EACCES)
	case err != nil:
		return fmt.Errorf("cannot determine whether %v is this relay's own (%w)", address, err)
	case len(answers) != 1 || len(answers[0].Data) < unix.SizeofRtMsg:
		return fmt.Errorf("cannot determine whether %v is this relay's own", address)
	}
	switch kind := answers[0].Data[7]; kind { // rtm_type
	case unix.RTN_UNICAST:
		return nil
	case unix.RTN_UNREACHABLE, unix.RTN_BLACKHOLE, unix.RTN_PROHIBIT:
		return ErrNoRoute
	default:
		return fmt.Errorf("%v is the relay's own", address)
	}
}
