// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// MAC addresses of the forwarding database and of messages: anyMAC is the default entry, probeMAC the entry for
// challenges, which may have another destination, and agentMAC the source of messages.
var (
	anyMAC   = net.HardwareAddr{0, 0, 0, 0, 0, 0}
	probeMAC = net.HardwareAddr{0x02, 0xb1, 0xca, 0x57, 0x00, 0x01}
	agentMAC = net.HardwareAddr{0x02, 0xb1, 0xca, 0x57, 0x00, 0x02}
)

// peers returns the destinations of a device's default entries.
func (k *kernel) peers(d device, udpPort uint16) ([]netip.AddrPort, error) {
	messages, err := k.inner.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request | netlink.Dump},
		Data:   neighbourHeader(d.index),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the forwarding entries of %s: %w", d.name, err)
	}
	var found []netip.AddrPort
	for _, message := range messages {
		to, is, err := decodeEntry(message.Data, d.index, udpPort)
		if err != nil {
			return nil, fmt.Errorf("cannot decode a forwarding entry of %s: %w", d.name, err)
		}
		if is {
			found = append(found, to)
		}
	}
	return found, nil
}

// decodeEntry decodes struct ndmsg and attributes. The kernel omits the port if it is the device's own.
func decodeEntry(b []byte, index int, udpPort uint16) (netip.AddrPort, bool, error) {
	if len(b) < unix.SizeofNdMsg {
		return netip.AddrPort{}, false, fmt.Errorf("a forwarding entry of %d bytes, expected at least %d", len(b), unix.SizeofNdMsg)
	}
	if b[0] != unix.AF_BRIDGE || int(binary.NativeEndian.Uint32(b[4:])) != index {
		return netip.AddrPort{}, false, nil
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofNdMsg:])
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	var to netip.Addr
	var mac string
	for attributes.Next() {
		switch attributes.Type() {
		case unix.NDA_LLADDR:
			mac = net.HardwareAddr(attributes.Bytes()).String()
		case unix.NDA_DST:
			to, _ = netip.AddrFromSlice(attributes.Bytes())
		case unix.NDA_PORT:
			if port := attributes.Bytes(); len(port) == 2 {
				udpPort = binary.BigEndian.Uint16(port)
			}
		}
	}
	return netip.AddrPortFrom(to, udpPort), mac == anyMAC.String() && to.IsValid(), attributes.Err()
}

// setDestination makes an address the only default destination of a device. The kernel cannot replace a default entry, so for a
// moment both exist. An existing entry stays: a second one might have another underlay, and then both would stay for ever.
func (k *kernel) setDestination(d device, to netip.AddrPort, udpPort uint16) error {
	before, err := k.peers(d, udpPort)
	if err != nil {
		return err
	}
	var failures []error
	if !slices.Contains(before, to) {
		failures = append(failures, k.entry(d, unix.RTM_NEWNEIGH, netlink.Create|netlink.Append, anyMAC, to))
	}
	for _, each := range before {
		if each != to {
			failures = append(failures, k.entry(d, unix.RTM_DELNEIGH, 0, anyMAC, each))
		}
	}
	return errors.Join(failures...)
}

// setProbeDestination sets the destination of packets for probeMAC.
func (k *kernel) setProbeDestination(d device, to netip.AddrPort) error {
	return k.entry(d, unix.RTM_NEWNEIGH, netlink.Create|netlink.Replace, probeMAC, to)
}

// entry changes an entry that leaves by the ordered device. The kernel looks up the device's index in the namespace of the
// ports. If it refuses the index, the routes decide.
func (k *kernel) entry(d device, kind uint16, flags netlink.HeaderFlags, mac net.HardwareAddr, to netip.AddrPort) error {
	by := d.underlay
	err := change(k.inner, kind, flags, neighbourHeader(d.index), entryOf(mac, to, by))
	if by != 0 && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENOENT)) { // or the entry to delete has no device
		err = change(k.inner, kind, flags, neighbourHeader(d.index), entryOf(mac, to, 0))
	}
	if err != nil {
		return fmt.Errorf("cannot set the destination of %s to %v: %w", d.name, to, err)
	}
	return nil
}

func entryOf(mac net.HardwareAddr, to netip.AddrPort, by int) *netlink.AttributeEncoder {
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.NDA_LLADDR, mac)
	attributes.Bytes(unix.NDA_DST, to.Addr().AsSlice())
	attributes.Bytes(unix.NDA_PORT, binary.BigEndian.AppendUint16(nil, to.Port()))
	if by != 0 {
		attributes.Uint32(unix.NDA_IFINDEX, uint32(by))
	}
	return attributes
}

// neighbourHeader encodes struct ndmsg.
func neighbourHeader(index int) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = unix.AF_BRIDGE
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint16(b[8:], unix.NUD_PERMANENT)
	b[10] = unix.NTF_SELF
	return b
}
