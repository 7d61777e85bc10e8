// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Link is the current state of a network interface.
type Link struct {
	Name          string
	Up            bool // administratively up, with a carrier
	Loopback      bool
	Addresses     []netip.Addr // without link-local addresses
	BytesSent     uint64
	BytesReceived uint64
}

// Links reads the interfaces of the network namespace in which it was opened.
type Links struct{ conn *netlink.Conn }

// OpenLinks opens a socket in the calling thread's network namespace.
func OpenLinks() (*Links, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the interfaces: %w", err)
	}
	return &Links{conn}, nil
}

// Close closes the socket.
func (l *Links) Close() error { return l.conn.Close() }

// Read returns every interface, in the kernel's order.
func (l *Links) Read() ([]Link, error) {
	found, err := l.dump(unix.RTM_GETLINK, unix.SizeofIfInfomsg)
	if err != nil {
		return nil, err
	}
	links := make([]Link, 0, len(found))
	indices := make([]uint32, 0, len(found))
	for _, message := range found {
		link, index, err := decodeLink(message.Data)
		if err != nil {
			return nil, err
		}
		links, indices = append(links, link), append(indices, index)
	}
	addresses, err := l.dump(unix.RTM_GETADDR, unix.SizeofIfAddrmsg)
	if err != nil {
		return nil, err
	}
	for _, message := range addresses {
		address, index, err := decodeAddress(message.Data)
		if err != nil {
			return nil, err
		}
		at := slices.Index(indices, index)
		if at >= 0 && address.IsValid() && !address.IsLinkLocalUnicast() {
			links[at].Addresses = append(links[at].Addresses, address)
		}
	}
	return links, nil
}

// Addresses returns all addresses of this host but those of the loopback.
func (l *Links) Addresses() ([]netip.Addr, error) {
	links, err := l.Read()
	var found []netip.Addr
	for _, link := range links {
		if !link.Loopback {
			found = append(found, link.Addresses...)
		}
	}
	return found, err
}

func (l *Links) dump(kind uint16, header int) ([]netlink.Message, error) {
	found, err := l.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, header),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the interfaces: %w", err)
	}
	return found, nil
}

// decodeLink decodes RTM_NEWLINK: struct ifinfomsg and attributes, rtnetlink(7).
func decodeLink(b []byte) (Link, uint32, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return Link{}, 0, fmt.Errorf("an interface message of %d bytes, expected at least %d", len(b), unix.SizeofIfInfomsg)
	}
	flags := binary.NativeEndian.Uint32(b[8:])
	link := Link{
		Up:       flags&(unix.IFF_UP|unix.IFF_LOWER_UP) == unix.IFF_UP|unix.IFF_LOWER_UP,
		Loopback: flags&unix.IFF_LOOPBACK != 0,
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofIfInfomsg:])
	if err != nil {
		return Link{}, 0, fmt.Errorf("cannot decode the attributes of an interface: %w", err)
	}
	for attributes.Next() {
		switch attributes.Type() {
		case unix.IFLA_IFNAME:
			link.Name = attributes.String()
		case unix.IFLA_STATS64:
			if counters := attributes.Bytes(); len(counters) >= 32 { // packets first, then bytes
				link.BytesReceived = binary.NativeEndian.Uint64(counters[16:])
				link.BytesSent = binary.NativeEndian.Uint64(counters[24:])
			}
		}
	}
	if err := attributes.Err(); err != nil {
		return Link{}, 0, fmt.Errorf("cannot decode the attributes of an interface: %w", err)
	}
	return link, binary.NativeEndian.Uint32(b[4:]), nil
}

// decodeAddress decodes RTM_NEWADDR: struct ifaddrmsg and attributes. On point-to-point links, IFA_LOCAL is ours and
// IFA_ADDRESS the peer's. IPv6 has only IFA_ADDRESS.
func decodeAddress(b []byte) (netip.Addr, uint32, error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return netip.Addr{}, 0, fmt.Errorf("an address message of %d bytes, expected at least %d", len(b), unix.SizeofIfAddrmsg)
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofIfAddrmsg:])
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("cannot decode the attributes of an address: %w", err)
	}
	var local, address netip.Addr
	for attributes.Next() {
		switch attributes.Type() {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(attributes.Bytes())
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(attributes.Bytes())
		}
	}
	if err := attributes.Err(); err != nil {
		return netip.Addr{}, 0, fmt.Errorf("cannot decode the attributes of an address: %w", err)
	}
	if local.IsValid() {
		address = local
	}
	return address, binary.NativeEndian.Uint32(b[4:]), nil
}
