// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	headerBytes = 8 // ICMP echo: type, code, checksum, identifier, sequence number
	tokenBytes  = 8
	packetBytes = 64 // the usual size of a ping

	// ICMP types of RFC 792 and RFC 4443.
	echoAsked4, echoAnswered4, tooFar4, noFurther4 = 8, 0, 11, 3
	echoAsked6, echoAnswered6, tooFar6, noFurther6 = 128, 129, 3, 1

	// struct sock_extended_err (linux/errqueue.h), which the sender's address follows, and its ee_origin.
	errorBytes                  = 16
	byThisHost, byICMP, byICMP6 = 1, 2, 3
)

// packets builds and parses the packets of one socket.
type packets struct {
	six, raw   bool
	identifier uint16 // of a raw socket; otherwise the kernel chooses and checks it
	token      [tokenBytes]byte
}

func (p packets) echoRequest(number int) []byte {
	b := make([]byte, packetBytes)
	b[0] = echoAsked4
	if p.six {
		b[0] = echoAsked6
	}
	binary.BigEndian.PutUint16(b[4:], p.identifier)
	binary.BigEndian.PutUint16(b[6:], uint16(number))
	copy(b[headerBytes:], p.token[:])
	if !p.six { // the kernel computes ICMPv6 checksums
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// checksum is the Internet checksum (RFC 1071).
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

// answered returns the number of the echo that a packet answers, or false if the packet is not ours.
func (p packets) answered(b []byte) (number int, ours bool) {
	if p.raw && !p.six { // a raw socket delivers the IPv4 header
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

// number returns the number of an echo of this socket, which may be truncated.
func (p packets) number(b []byte) (int, bool) {
	if len(b) < headerBytes || p.raw && binary.BigEndian.Uint16(b[4:]) != p.identifier {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(b[6:])), true
}

// icmpError parses an error from the queue and the packet that caused it.
func (p packets) icmpError(b, extended []byte) (number int, word verdict, from netip.Addr, ours bool) {
	if len(extended) < errorBytes {
		return 0, 0, from, false
	}
	switch origin, kind := extended[4], extended[5]; {
	case origin == byICMP && kind == tooFar4, origin == byICMP6 && kind == tooFar6:
		word = ttlExceeded
	case origin == byICMP && kind == noFurther4, origin == byICMP6 && kind == noFurther6:
		word = unreachable
	default: // a local error or a too long packet says nothing of the route
		return 0, 0, from, false
	}
	from, known := address(extended[errorBytes:])
	number, ours = p.number(b)
	return number, word, from, ours && known
}

// address parses a struct sockaddr_in or sockaddr_in6.
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
