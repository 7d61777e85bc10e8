// SPDX-License-Identifier: Apache-2.0

// Package tunnel implements one end of the tunnels between two sites: VXLAN inside WireGuard. Each tunnel is an uplink of
// both sites. WireGuard encrypts, authenticates and follows the other end. This package makes the devices, notices when the
// other end is silent, and measures the longest packet that passes:
//
//	starts (it has the other's address)                     answers
//	question, each second ─────────────────────────────────▶
//	         ◀───────────────────────────────── answer, as long
package tunnel

import "encoding/binary"

type kind byte

const (
	question kind = 1 + iota
	answer
)

// Lengths are those of IP packets in the tunnel's device. A message is as long as such a packet with its headers.
const (
	headBytes = 13
	shortest  = 64
	longest   = 1<<16 - 1
)

// message is what the two ends send each other by UDP inside WireGuard.
//
//	0 kind     1 length     3 mtu or moves     5 ticket, 8 bytes     13 padding
type message struct {
	kind   kind
	length int    // an IP packet of this length passes if the message does
	mtu    uint16 // of a question: the longest answered length; 0: unknown
	moves  uint16 // of an answer: changes of the starting end's address
	ticket uint64 // of a question, and of its answer
}

func (m message) encode() []byte {
	b := make([]byte, m.length+vxlanBytes+ethernetBytes)
	b[0] = byte(m.kind)
	binary.BigEndian.PutUint16(b[1:], uint16(m.length))
	binary.BigEndian.PutUint16(b[3:], m.mtu|m.moves)
	binary.BigEndian.PutUint64(b[5:], m.ticket)
	return b
}

// decode returns false if the bytes are no whole message.
func decode(b []byte) (message, bool) {
	if len(b) < headBytes {
		return message{}, false
	}
	m := message{kind: kind(b[0]), length: int(binary.BigEndian.Uint16(b[1:])), ticket: binary.BigEndian.Uint64(b[5:])}
	switch value := binary.BigEndian.Uint16(b[3:]); m.kind {
	case question:
		m.mtu = value
	case answer:
		m.moves = value
	default:
		return message{}, false
	}
	return m, m.length >= shortest && len(b) == m.length+vxlanBytes+ethernetBytes
}
