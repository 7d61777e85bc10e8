// SPDX-License-Identifier: Apache-2.0

// Package stamp measures the health of a path with STAMP test packets (RFC 8762), so that the peer can be another
// implementation. It has a Session-Sender, a Session-Reflector, and statistics over 1 s, 10 s and 60 s.
//
//	Session-Sender                                   Session-Reflector
//	left at T1, number S ───────────────────────────▶ came at T2
//	came at T4 ◀─────────────────────────────────────  left at T3, number R; and T1, S, as they came
//
// A session between agents is authenticated with its own key. Each restart of either end needs a new key: the sender's numbers
// start again, and the reflector forgets which numbers it answered. Sessions without a key are for other implementations of
// STAMP or TWAMP Light.
package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

const (
	hmacCovers = 96 // RFC 8762, section 4.4: the first six blocks
	hmacBytes  = 16 // HMAC-SHA-256, truncated from 32
)

// layout holds the offsets of the fields in network byte order. The number is at offset 0, the bytes in between are
// zero.
type layout struct {
	length, time, estimate, session           int
	received, number, sent, sentEstimate, ttl int // of answers
}

// RFC 8762, figures 2 and 4 (plain), 3 and 5 (authenticated). The session ID is from RFC 8972: zero for peers without it.
var (
	plain = layout{length: 44, time: 4, estimate: 12, session: 14,
		received: 16, number: 24, sent: 28, sentEstimate: 36, ttl: 40}
	authenticated = layout{length: 112, time: 16, estimate: 24, session: 26,
		received: 32, number: 48, sent: 64, sentEstimate: 72, ttl: 80}
)

func layoutOf(key []byte) layout {
	if key == nil {
		return plain
	}
	return authenticated
}

// Packet is sent by a Session-Sender. Time has the wire format that the estimate names.
type Packet struct {
	Number   uint32
	Session  uint16
	Time     uint64
	Estimate Estimate
}

// Answer is sent by a Session-Reflector and includes the packet that it answers.
type Answer struct {
	Packet
	Received uint64 // in the format of Packet.Estimate
	To       Packet // without its session
	TTL      byte   // or hop limit, of the received packet
}

// Seal encodes the packet, authenticated if there is a key.
func (p Packet) Seal(key []byte) []byte {
	of := layoutOf(key)
	b := make([]byte, of.length)
	p.put(b, of)
	return sealed(b, key)
}

// Seal encodes the answer. It is as long as a packet of the same mode.
func (a Answer) Seal(key []byte) []byte {
	of := layoutOf(key)
	b := make([]byte, of.length)
	a.put(b, of)
	binary.BigEndian.PutUint64(b[of.received:], a.Received)
	binary.BigEndian.PutUint32(b[of.number:], a.To.Number)
	binary.BigEndian.PutUint64(b[of.sent:], a.To.Time)
	binary.BigEndian.PutUint16(b[of.sentEstimate:], uint16(a.To.Estimate))
	b[of.ttl] = a.TTL
	return sealed(b, key)
}

// OpenPacket decodes a Session-Sender's packet, or returns false if it is short or has another key. Bytes after the
// packet (RFC 8972 extensions, TWAMP padding) are ignored.
func OpenPacket(key, b []byte) (Packet, bool) {
	of := layoutOf(key)
	if !genuine(b, key, of) {
		return Packet{}, false
	}
	// An answer has the same format and key. Reject answers that are sent back to the reflector.
	if key != nil && binary.BigEndian.Uint64(b[of.received:]) != 0 {
		return Packet{}, false
	}
	return packet(b, of), true
}

// OpenAnswer decodes a Session-Reflector's packet, or returns false if it is short or has another key.
func OpenAnswer(key, b []byte) (Answer, bool) {
	of := layoutOf(key)
	if !genuine(b, key, of) {
		return Answer{}, false
	}
	to := Packet{
		Number: binary.BigEndian.Uint32(b[of.number:]), Time: binary.BigEndian.Uint64(b[of.sent:]),
		Estimate: Estimate(binary.BigEndian.Uint16(b[of.sentEstimate:])),
	}
	return Answer{Packet: packet(b, of), Received: binary.BigEndian.Uint64(b[of.received:]), To: to, TTL: b[of.ttl]}, true
}

func (p Packet) put(b []byte, of layout) {
	binary.BigEndian.PutUint32(b, p.Number)
	binary.BigEndian.PutUint64(b[of.time:], p.Time)
	binary.BigEndian.PutUint16(b[of.estimate:], uint16(p.Estimate))
	binary.BigEndian.PutUint16(b[of.session:], p.Session)
}

func packet(b []byte, of layout) Packet {
	return Packet{
		Number: binary.BigEndian.Uint32(b), Session: binary.BigEndian.Uint16(b[of.session:]),
		Time: binary.BigEndian.Uint64(b[of.time:]), Estimate: Estimate(binary.BigEndian.Uint16(b[of.estimate:])),
	}
}

func sealed(b, key []byte) []byte {
	if key != nil {
		copy(b[hmacCovers:], code(key, b))
	}
	return b
}

func genuine(b, key []byte, of layout) bool {
	return len(b) >= of.length && (key == nil || hmac.Equal(b[hmacCovers:hmacCovers+hmacBytes], code(key, b)))
}

func code(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b[:hmacCovers])
	return h.Sum(nil)[:hmacBytes]
}
