// SPDX-License-Identifier: Apache-2.0

package portxdp

import "encoding/binary"

const (
	ethernetBytes = 14
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	icmpBytes     = 8

	etherIPv4 = 0x0800
	icmp      = 1
	icmpv6    = 58
	hops      = 64

	leastIPv6 = 1280 // minimum MTU, RFC 8200, 5
)

// dummy is the source of ICMPv4 answers: the IPv4 dummy address (RFC 7600), because the router has no known address.
var dummy = [4]byte{192, 0, 0, 8}

// tooLong returns the answer to the sender of a frame, with the largest size of an IP packet. The frame has only the
// bytes to quote.
func tooLong(frame []byte, largest int) []byte {
	answer := make([]byte, 0, ethernetBytes+leastIPv6)
	answer = append(answer, frame[6:12]...)
	answer = append(answer, frame[:6]...)
	answer = append(answer, frame[12:14]...)
	router, packet := frame[:6], frame[ethernetBytes:]
	if binary.BigEndian.Uint16(frame[12:]) == etherIPv4 {
		return append(answer, tooLongIPv4(packet, largest)...)
	}
	return append(answer, tooLongIPv6(packet, max(largest, leastIPv6), router)...)
}

// tooLongIPv4 is destination unreachable, fragmentation needed, with the MTU of the next hop (RFC 792 and RFC 1191,
// 4).
func tooLongIPv4(packet []byte, largest int) []byte {
	answer := make([]byte, ipv4Bytes+icmpBytes, ipv4Bytes+icmpBytes+len(packet))
	answer = append(answer, packet...)
	answer[0] = 4<<4 | ipv4Bytes/4
	answer[1] = 6 << 5 // precedence internetwork control (RFC 1812, 4.3.2.5)
	binary.BigEndian.PutUint16(answer[2:], uint16(len(answer)))
	answer[6] = 0x40 // DF, and so without an identification
	answer[8], answer[9] = hops, icmp
	copy(answer[12:], dummy[:])
	copy(answer[16:20], packet[12:16])
	binary.BigEndian.PutUint16(answer[10:], ^sum(answer[:ipv4Bytes]))
	message := answer[ipv4Bytes:]
	message[0], message[1] = 3, 4
	binary.BigEndian.PutUint16(message[6:], uint16(largest))
	binary.BigEndian.PutUint16(message[2:], ^sum(message))
	return answer
}

// tooLongIPv6 is packet too big (RFC 4443, 3.2), from the router's link-local address.
func tooLongIPv6(packet []byte, largest int, router []byte) []byte {
	answer := make([]byte, ipv6Bytes+icmpBytes, ipv6Bytes+icmpBytes+len(packet))
	answer = append(answer, packet...)
	answer[0] = 6 << 4
	binary.BigEndian.PutUint16(answer[4:], uint16(len(answer)-ipv6Bytes))
	answer[6], answer[7] = icmpv6, hops
	source := linkLocal(router)
	copy(answer[8:], source[:])
	copy(answer[24:40], packet[8:24])
	message := answer[ipv6Bytes:]
	message[0] = 2
	binary.BigEndian.PutUint32(message[4:], uint32(largest))
	binary.BigEndian.PutUint16(message[2:], ^sum(answer[8:40], message, []byte{0, icmpv6}, binary.BigEndian.AppendUint16(nil, uint16(len(message)))))
	return answer
}

// linkLocal derives an address from a MAC address (RFC 4291, appendix A).
func linkLocal(mac []byte) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]}
}

// sum is the sum of RFC 1071. Only the last part may have an odd number of bytes.
func sum(parts ...[]byte) uint16 {
	var total uint32
	for _, part := range parts {
		for len(part) > 1 {
			total += uint32(binary.BigEndian.Uint16(part))
			part = part[2:]
		}
		if len(part) == 1 {
			total += uint32(part[0]) << 8
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}
