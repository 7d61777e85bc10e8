// SPDX-License-Identifier: Apache-2.0

// Package stamp measures the health of a path by RFC 8762's test packets (STAMP), so that what others built can be the
// other end: a Session-Sender, a Session-Reflector, and what the answers of the last second, ten and sixty say.
//
//	Session-Sender                                   Session-Reflector
//	left at T1, number S ───────────────────────────▶ came at T2
//	came at T4 ◀─────────────────────────────────────  left at T3, number R; and T1, S, as they came
//
// A session of our own is authenticated, has a key of its own and lives as long as both ends: after each start of either
// there is a new key, for a sender's numbers begin again, and a reflector has forgotten which it answered. Sessions without
// a key are for other people's ends, of STAMP or of TWAMP Light.
package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

const (
	hmacCovers = 96 // RFC 8762, section 4.4: the first six blocks
	hmacBytes  = 16 // of HMAC-SHA-256's 32
)

// layout is where the fields stand, network byte order. A number is at 0; all between is zero.
type layout struct {
	length, time, estimate, session           int
	received, number, sent, sentEstimate, ttl int // of answers
}

// RFC 8762, figures 2 and 4, and 3 and 5. The session's number is RFC 8972's: zero for who does not know that.
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

// Packet is a Session-Sender's. Its time is as it goes over the wire: the estimate says in which format.
type Packet struct {
	Number   uint32
	Session  uint16
	Time     uint64
	Estimate Estimate
}

// Answer is a Session-Reflector's: what it says itself, and the packet that it answers.
type Answer struct {
	Packet
	Received uint64 // in the format of Packet.Estimate
	To       Packet // without its session
	TTL      byte   // that the packet came with, or its hop limit
}

// Seal is the packet as it is sent; with a key it is authenticated.
func (p Packet) Seal(key []byte) []byte {
	of := layoutOf(key)
	b := make([]byte, of.length)
	p.put(b, of)
	return sealed(b, key)
}

// Seal is the answer as it is sent: as long as the packet of that kind.
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

// OpenPacket reads a Session-Sender's packet; false where it is short or not of the key. What is behind it, as RFC 8972's
// extensions and TWAMP's padding, is not looked at.
func OpenPacket(key, b []byte) (Packet, bool) {
	of := layoutOf(key)
	if !genuine(b, key, of) {
		return Packet{}, false
	}
	// An answer has the same form and the same key: who sends it back to the reflector shall not be heard.
	if key != nil && binary.BigEndian.Uint64(b[of.received:]) != 0 {
		return Packet{}, false
	}
	return packet(b, of), true
}

// OpenAnswer reads a Session-Reflector's packet; false where it is short or not of the key.
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
