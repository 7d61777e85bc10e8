// SPDX-License-Identifier: Apache-2.0

// Package tunnel implements one end of the VXLAN tunnels between two sites. Each tunnel is an uplink of both sites. The
// kernel carries the packets. This package tracks and verifies the address of the other end, and measures the path MTU.
//
//	starts (it has the other's address)                     answers
//	question, each second ─────────────────────────────────▶
//	         ◀───────────────────────────────── answer, as long
//
// A question from a new address gets only a challenge. A second question from there with the challenge's nonce proves that
// the other end has moved there (end.go).
package tunnel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"bicast/internal/admission"
)

const (
	etherType = 0x88B5 // IEEE 802, local experiments
	keyBytes  = 32
	shortest  = 36 + sha256.Size // of a message, in bytes
	longest   = 1<<16 - 1
)

type kind byte

// The starting end sends questions and the other end the rest, so no end accepts its own messages.
const (
	question kind = 1 + iota
	answer
	challenge
)

// nonce is made by the answering end and returns in questions.
type nonce = admission.Nonce

// message is the payload of a frame between the two ends inside the tunnel.
//
//	0  "bct1"                4  kind          5  VNI, 3 bytes
//	8  total length          10 mtu           12 ticket, 8 bytes
//	20 nonce, 16 bytes       36 HMAC-SHA256 of the other bytes     68 padding
type message struct {
	kind   kind
	length int    // in bytes, with padding: an IP packet of this length passes if the message does
	mtu    int    // of a question: the longest answered length in bytes; 0: unknown
	ticket uint64 // of a question, higher than all before, and of its answer
	nonce  nonce
}

var magic = [4]byte{'b', 'c', 't', '1'}

// seal encodes a message.
func (m message) seal(vni uint32, key []byte) []byte {
	b := make([]byte, max(m.length, shortest))
	copy(b, magic[:])
	binary.BigEndian.PutUint32(b[4:], uint32(m.kind)<<24|vni)
	binary.BigEndian.PutUint16(b[8:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[10:], uint16(m.mtu))
	binary.BigEndian.PutUint64(b[12:], m.ticket)
	copy(b[20:], m.nonce[:])
	copy(b[36:], code(key, b))
	return b
}

// open decodes a message. It returns false if the message is incomplete, of another tunnel, or has a wrong HMAC.
func open(vni uint32, key, b []byte) (message, bool) {
	if len(b) < shortest || len(b) > longest || [4]byte(b) != magic || int(binary.BigEndian.Uint16(b[8:])) != len(b) {
		return message{}, false
	}
	first := binary.BigEndian.Uint32(b[4:])
	m := message{
		kind: kind(first >> 24), length: len(b), mtu: int(binary.BigEndian.Uint16(b[10:])),
		ticket: binary.BigEndian.Uint64(b[12:]), nonce: nonce(b[20:]),
	}
	ours := first&0xffffff == vni && m.kind >= question && m.kind <= challenge
	return m, ours && hmac.Equal(b[36:shortest], code(key, b))
}

func code(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(slices.Concat(b[:36], b[shortest:]))
	return h.Sum(nil)
}
