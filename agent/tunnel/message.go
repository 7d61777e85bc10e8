// SPDX-License-Identifier: Apache-2.0

// Package tunnel is one end of the VXLAN tunnels between two sites, each an uplink of both. The kernel carries what goes
// in; what is kept here is where the other end is just now, who may speak for it, and how long packets may be.
//
//	starts (it has the other's address)                     answers
//	question, each second ─────────────────────────────────▶
//	         ◀───────────────────────────────── answer, as long
//
// A question from an address that is not the other end's so far is answered with a challenge alone; the question that
// comes back from there with the challenge's nonce moves the other end there (end.go).
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

// Who starts asks; who answers does the others. So no end takes its own words for the other's.
const (
	question kind = 1 + iota
	answer
	challenge
)

// nonce is made by who answers and comes back in questions.
type nonce = admission.Nonce

// message is what the ends say to each other inside of the tunnel, in place of an IP packet.
//
//	0  "bct1"                4  kind          5  VNI, 3 bytes
//	8  length of it all      10 mtu           12 ticket, 8 bytes
//	20 nonce, 16 bytes       36 HMAC-SHA256 of all the rest        68 padding
type message struct {
	kind   kind
	length int    // in bytes, with its padding: that of an IP packet which goes through if this does
	mtu    int    // of a question: the longest that was answered, in bytes; 0: not known yet
	ticket uint64 // of a question, higher than those before, and of what answers it
	nonce  nonce
}

var magic = [4]byte{'b', 'c', 't', '1'}

// seal is the message as it goes out.
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

// open reads a message of a tunnel; false for all that is not whole, of another tunnel or of somebody without the key.
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
