// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	headerBytes = 8 // of ICMP's echo: type, code, checksum, identifier, sequence number
	tokenBytes  = 8
	packetBytes = 64 // as others' pings are

	// RFC 792 and RFC 4443.
	echoAsked4, echoAnswered4, tooFar4, noFurther4 = 8, 0, 11, 3
	echoAsked6, echoAnswered6, tooFar6, noFurther6 = 128, 129, 3, 1

	// struct sock_extended_err, and the address behind it (linux/errqueue.h).
	errorBytes                  = 16
	byThisHost, byICMP, byICMP6 = 1, 2, 3
)

// packets are of one socket.
type packets struct {
	six, raw   bool
	identifier uint16 // of a raw socket; else the kernel gives its own, and knows it
	token      [tokenBytes]byte
}

func (p packets) asks(number int) []byte {
	b := make([]byte, packetBytes)
	b[0] = echoAsked4
	if p.six {
		b[0] = echoAsked6
	}
	binary.BigEndian.PutUint16(b[4:], p.identifier)
	binary.BigEndian.PutUint16(b[6:], uint16(number))
	copy(b[headerBytes:], p.token[:])
	if !p.six { // of ICMPv6 the kernel makes it
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// checksum is RFC 1071's.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// answered reads what came: the number that it answers, or that it answers none of ours.
func (p packets) answered(b []byte) (number int, ours bool) {
	if p.raw && !p.six { // with the header of IPv4
		if len(b) < 20 || len(b) < int(b[0]&15)*4 {
			return 0, false
		}
		b = b[int(b[0]&15)*4:]
	}
	if len(b) < headerBytes+tokenBytes || b[0] != echoAnswered4 && !p.six || b[0] != echoAnswered6 && p.six ||
		[tokenBytes]byte(b[headerBytes:]) != p.token {
		return 0, false
	}
	return p.number(b)
}

// number is of a packet that this socket sent, or of the beginning of one.
func (p packets) number(b []byte) (int, bool) {
	if len(b) < headerBytes || p.raw && binary.BigEndian.Uint16(b[4:]) != p.identifier {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(b[6:])), true
}

// refused reads what the kernel says of an error, with the packet that it is of.
func (p packets) refused(b, extended []byte) (number int, word said, from netip.Addr, ours bool) {
	if len(extended) < errorBytes {
		return 0, 0, from, false
	}
	switch origin, kind := extended[4], extended[5]; {
	case origin == byICMP && kind == tooFar4, origin == byICMP6 && kind == tooFar6:
		word = tooFar
	case origin == byICMP && kind == noFurther4, origin == byICMP6 && kind == noFurther6:
		word = noFurther
	default: // this host's own trouble, or a packet that is too long: nobody on the way
		return 0, 0, from, false
	}
	from, known := address(extended[errorBytes:])
	number, ours = p.number(b)
	return number, word, from, ours && known
}

// address reads a struct sockaddr_in, or sockaddr_in6.
func address(b []byte) (netip.Addr, bool) {
	switch {
	case len(b) >= 8 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		return netip.AddrFrom4([4]byte(b[4:])), true
	case len(b) >= 24 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		return netip.AddrFrom16([16]byte(b[8:])), true
	default:
		return netip.Addr{}, false
	}
}
