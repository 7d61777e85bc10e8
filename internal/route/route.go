// SPDX-License-Identifier: Apache-2.0

// Package route reads and changes the kernel's routes.
package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Route is a route over one next hop. A Device of 0 stands for any.
type Route struct {
	Table       uint32
	Protocol    uint8 // the program that made it
	Kind        uint8 // such as unix.RTN_UNICAST
	Destination netip.Prefix
	Metric      uint32
	Device      int // index
	Gateway     netip.Addr
	Source      netip.Addr // of the packets; only read
}

// Families are those of the host's routes.
var Families = []byte{unix.AF_INET, unix.AF_INET6}

// Default returns the destination of a family's default routes.
func Default(family byte) netip.Prefix {
	if family == unix.AF_INET6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// Family returns the family of an address.
func Family(address netip.Addr) byte {
	if address.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// All returns a family's routes of all tables, in the kernel's order. One over several next hops is several routes.
func All(conn *netlink.Conn, family byte) (all []Route, err error) {
	messages, err := execute(conn, unix.RTM_GETROUTE, netlink.Dump, header(Default(family)), netlink.NewAttributeEncoder())
	if err != nil {
		return nil, fmt.Errorf("cannot read the routes: %w", err)
	}
	for _, message := range messages {
		found, err := decode(message.Data)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Packet has what the kernel chooses a route by. A Device or Mark of 0 stands for none.
type Packet struct {
	To     netip.Addr
	Device int
	Mark   uint32
}

// Of returns the route of a packet. The error of the kernel, when it has none, is wrapped in a *netlink.OpError.
func Of(conn *netlink.Conn, p Packet) (Route, error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.RTA_DST, p.To.AsSlice())
	if p.Device != 0 {
		attributes.Uint32(unix.RTA_OIF, uint32(p.Device))
	}
	if p.Mark != 0 {
		attributes.Uint32(unix.RTA_MARK, p.Mark)
	}
	messages, err := execute(conn, unix.RTM_GETROUTE, 0, header(netip.PrefixFrom(p.To, p.To.BitLen())), attributes)
	if err != nil {
		return Route{}, fmt.Errorf("cannot read the route to %v: %w", p.To, err)
	}
	if len(messages) != 1 {
		return Route{}, fmt.Errorf("cannot read the route to %v: %d answers, expected 1", p.To, len(messages))
	}
	found, err := decode(messages[0].Data)
	if err != nil {
		return Route{}, err
	}
	return found[0], nil
}

// Set adds a route, or replaces the one with the same destination and metric in its table. It leaves an equal one alone:
// the kernel would report the change to all that watch, such as network managers and this agent.
func Set(conn *netlink.Conn, r Route) error {
	err := r.change(conn, unix.RTM_NEWROUTE, netlink.Create|netlink.Excl)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	all, err := All(conn, Family(r.Destination.Addr()))
	if err != nil || slices.ContainsFunc(all, r.is) {
		return err
	}
	return r.change(conn, unix.RTM_NEWROUTE, netlink.Create|netlink.Replace)
}

// is reports whether the kernel's route is what Set would make.
func (r Route) is(kernels Route) bool {
	kernels.Source = r.Source
	if r.Device == 0 {
		kernels.Device = 0 // unreachable IPv6 routes have the loopback
	}
	return kernels == r
}

// Delete deletes a route if it is there.
func Delete(conn *netlink.Conn, r Route) error {
	if err := r.change(conn, unix.RTM_DELROUTE, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

func (r Route) change(conn *netlink.Conn, what netlink.HeaderType, flags netlink.HeaderFlags) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.RTA_TABLE, r.Table)
	attributes.Uint32(unix.RTA_PRIORITY, r.Metric)
	if r.Destination.Bits() != 0 {
		attributes.Bytes(unix.RTA_DST, r.Destination.Addr().AsSlice())
	}
	if r.Device != 0 {
		attributes.Uint32(unix.RTA_OIF, uint32(r.Device))
	}
	if r.Gateway.IsValid() {
		attributes.Bytes(unix.RTA_GATEWAY, r.Gateway.AsSlice())
	}
	scope := byte(unix.RT_SCOPE_UNIVERSE)
	switch {
	case what == unix.RTM_DELROUTE:
		scope = unix.RT_SCOPE_NOWHERE // deletes a route of any scope
	case r.Device != 0 && !r.Gateway.IsValid():
		scope = unix.RT_SCOPE_LINK
	}
	header := header(r.Destination)
	header[5], header[6], header[7] = r.Protocol, scope, r.Kind
	if _, err := execute(conn, what, netlink.Acknowledge|flags, header, attributes); err != nil {
		return fmt.Errorf("cannot change the route to %v: %w", r.Destination, err)
	}
	return nil
}

// header encodes struct rtmsg: the family and the bits of the destination.
func header(destination netip.Prefix) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = Family(destination.Addr()), byte(destination.Bits())
	return b
}

func execute(conn *netlink.Conn, what netlink.HeaderType, flags netlink.HeaderFlags, header []byte, attributes *netlink.AttributeEncoder) ([]netlink.Message, error) {
	encoded, err := attributes.Encode()
	if err != nil {
		return nil, err
	}
	return conn.Execute(netlink.Message{
		Header: netlink.Header{Type: what, Flags: netlink.Request | flags}, Data: append(header, encoded...),
	})
}

// decode decodes struct rtmsg and its attributes, rtnetlink(7).
func decode(b []byte) ([]Route, error) {
	if len(b) < unix.SizeofRtMsg {
		return nil, fmt.Errorf("a route message of %d bytes, expected at least %d", len(b), unix.SizeofRtMsg)
	}
	r := Route{Destination: Default(b[0]), Table: uint32(b[4]), Protocol: b[5], Kind: b[7]}
	hops, err := r.read(b[unix.SizeofRtMsg:], int(b[1]))
	if err != nil || len(hops) == 0 {
		return []Route{r}, err
	}
	var all []Route
	for len(hops) > 0 { // struct rtnexthop and attributes
		length := len(hops)
		if length >= unix.SizeofRtNexthop {
			length = int(binary.NativeEndian.Uint16(hops))
		}
		if length < unix.SizeofRtNexthop || length > len(hops) {
			return nil, fmt.Errorf("a next hop of %d bytes in %d", length, len(hops))
		}
		over := r
		over.Device = int(binary.NativeEndian.Uint32(hops[4:]))
		if _, err := over.read(hops[unix.SizeofRtNexthop:length], 0); err != nil {
			return nil, err
		}
		all, hops = append(all, over), hops[length:]
	}
	return all, nil
}

// read takes attributes over, and returns the one with several next hops.
func (r *Route) read(b []byte, bits int) (hops []byte, err error) {
	attributes, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the attributes of a route: %w", err)
	}
	for attributes.Next() {
		switch attributes.Type() {
		case unix.RTA_TABLE:
			r.Table = attributes.Uint32()
		case unix.RTA_PRIORITY:
			r.Metric = attributes.Uint32()
		case unix.RTA_DST:
			to, _ := netip.AddrFromSlice(attributes.Bytes())
			r.Destination = netip.PrefixFrom(to, bits)
		case unix.RTA_OIF:
			r.Device = int(attributes.Uint32())
		case unix.RTA_GATEWAY:
			r.Gateway, _ = netip.AddrFromSlice(attributes.Bytes())
		case unix.RTA_PREFSRC:
			r.Source, _ = netip.AddrFromSlice(attributes.Bytes())
		case unix.RTA_MULTIPATH:
			hops = attributes.Bytes()
		}
	}
	if err := attributes.Err(); err != nil {
		return nil, fmt.Errorf("cannot decode the attributes of a route: %w", err)
	}
	return hops, nil
}
