// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"cmp"
	"encoding/binary"
)

// A TTL of zero means a usual one.
type ipv4 struct {
	id       uint16
	flags    uint16 // with the fragment's offset
	ttl, tos uint8
	protocol uint8
	options  []byte // length is a multiple of four
	payload  []byte
	source   byte
	tags     []uint16
}

func (p ipv4) frame() []byte {
	header := make([]byte, 20+len(p.options))
	header[0] = 0x40 | byte(len(header)/4)
	header[1] = p.tos
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(p.payload)))
	binary.BigEndian.PutUint16(header[4:], p.id)
	binary.BigEndian.PutUint16(header[6:], p.flags)
	header[8], header[9] = cmp.Or(p.ttl, 64), p.protocol
	copy(header[12:], []byte{10, 0, 0, p.source})
	copy(header[16:], []byte{10, 9, 9, 9})
	copy(header[20:], p.options)
	binary.BigEndian.PutUint16(header[10:], sum(header))
	return ethernet(p.tags, 0x0800, append(header, p.payload...))
}

// A hop limit of zero means a usual one.
type ipv6 struct {
	label, hops uint8
	next        uint8
	payload     []byte
}

func (p ipv6) frame() []byte {
	header := make([]byte, 40)
	header[0], header[3] = 0x60, p.label
	binary.BigEndian.PutUint16(header[4:], uint16(len(p.payload)))
	header[6], header[7] = p.next, cmp.Or(p.hops, 64)
	header[8], header[24] = 0xfd, 0xfd
	return ethernet(nil, 0x86dd, append(header, p.payload...))
}

// mended returns a frame with a changed IPv4 header and a valid checksum.
func mended(frame []byte, change func(packet []byte)) []byte {
	packet := frame[14:]
	change(packet)
	clear(packet[10:12])
	binary.BigEndian.PutUint16(packet[10:], sum(packet[:min(int(packet[0]&0x0f)*4, len(packet))]))
	return frame
}

// own is the MAC address of every port unless a test sets another one.
var own = mac{Bytes: [6]byte{2, 0, 0, 0, 0, 1}}

func ethernet(tags []uint16, kind uint16, packet []byte) []byte {
	frame := append(make([]byte, 0, 64), own.Bytes[:]...)
	frame = append(frame, 2, 0, 0, 0, 0, 9)
	for _, tag := range tags {
		frame = binary.BigEndian.AppendUint16(frame, 0x8100)
		frame = binary.BigEndian.AppendUint16(frame, tag)
	}
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	for len(frame) < 60 { // padding, as drivers show it
		frame = append(frame, 0)
	}
	return frame
}

const (
	icmp, tcp, udp, esp, ah = 1, 6, 17, 50, 51
	dontFragment            = 0x4000
)

func numbered(id uint16) ipv4 {
	return ipv4{id: id, ttl: 64, protocol: udp, payload: []byte("0123456789abcdefghijklmnop"), source: 1}
}

// sum returns the Internet checksum of a header: 0 if the checksum inside is valid.
func sum(header []byte) uint16 {
	var total uint32
	for at := 0; at < len(header); at += 2 {
		total += uint32(binary.BigEndian.Uint16(header[at:]))
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}
