// SPDX-License-Identifier: Apache-2.0

// Package bandwidth measures the rate of one path by UDP packets of many lengths: when each left, when it came, and when its answer did, by
// the kernels' own stamps (internal/timestamping). A Reflector answers; Measure asks, and what it gives is read by
// controller/features/probing/probe_evaluation.py.
//
//	opening ────────────────▶
//	        ◀─────── challenge, to the address that the opening is said to come from
//	opening with its nonce ─▶            the session is of this address, and of no other
//	        ◀────────── answer to number 0
//	probe, of any length ───▶            numbers from 1
//	        ◀────────── answer, with the time that an earlier answer left
//	request, of 64 bytes ───▶            for the way back: it says how long its answer is to be
//	        ◀────────── answer of that length, with that time, too
//
// Nobody can have a stranger sent more than he sends himself. An answer that is longer than what it answers goes to the one
// address that a challenge was sent to and its nonce came back from: who writes another's address on his packets does not
// hear that nonce, whatever he recorded. Each request says its length under the key and is answered once, and what all
// answers have together, also of who has the key, is bounded (plan.go: share).
package bandwidth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"bicast/internal/admission"
)

// Of a packet's payload, in bytes.
const (
	Shortest     = headBytes
	ShortestDown = answerBytes
	Longest      = 1<<16 - 1 - 8 - 20

	headBytes   = 16
	answerBytes = 64 // of all but probes, and answers of the length that was asked for
	tagAt       = 8
	tagBytes    = 8
)

// Key is what both ends have, and nobody else.
type Key [32]byte

type kind byte

// What is said in one direction is no other thing in the other: no end takes its own words for the other's.
const (
	forth kind = 1 + iota
	back
	opens
	challenges
	asks
	fills
)

// head is how every packet begins; of what is no probe the number 0 tells what it is, or which probe it answers.
//
//	0 session    4 number    8 tag, 8 bytes of HMAC-SHA-256
type head struct{ session, number uint32 }

func headOf(b []byte) head {
	return head{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func (h head) write(b []byte) {
	binary.BigEndian.PutUint32(b, h.session)
	binary.BigEndian.PutUint32(b[4:], h.number)
}

// sealProbe makes a probe of what is long enough; behind its head is what it carries, and stays.
func sealProbe(key *Key, h head, b []byte) {
	h.write(b)
	copy(b[tagAt:headBytes], probeTag(key, b))
}

// openProbe is false for what is not whole, or not of somebody who has the key.
func openProbe(key *Key, b []byte) (head, bool) {
	if len(b) < Shortest || len(b) > Longest || !hmac.Equal(b[tagAt:headBytes], probeTag(key, b)) {
		return head{}, false
	}
	return headOf(b), true
}

// probeTag has no more of what is carried in it than how long it is: a long packet must not cost the hosts more than a short one.
func probeTag(key *Key, b []byte) []byte {
	return tag(key, forth, binary.BigEndian.AppendUint16(slices.Clone(b[:tagAt]), uint16(len(b))))
}

// request is a probe of the way back.
//
//	16 length of its answer    18 zeros
type request struct {
	head
	length int
}

func (r request) seal(key *Key) []byte {
	b := make([]byte, answerBytes)
	r.write(b)
	binary.BigEndian.PutUint16(b[16:], uint16(r.length))
	return closed(key, asks, b)
}

func openRequest(key *Key, b []byte) (request, bool) {
	if !whole(key, asks, b) {
		return request{}, false
	}
	r := request{headOf(b), int(binary.BigEndian.Uint16(b[16:]))}
	return r, r.length >= ShortestDown && r.length <= Longest
}

// answer is to one probe, and has always the same length: the way back takes all alike. To a request it has the length that
// was asked for, and behind its first 64 bytes whatever cannot be compressed.
//
//	16 received    24 number of an earlier answer    28 when that left
//	36 length of the probe, or its own to a request    38 1: stamps of a network card    39 zero
//	40 when it was written    48 zeros
type answer struct {
	head
	received int64 // nanoseconds since 1970, of the answering end's clock; 0: not known
	earlier  uint32
	left     int64 // of the answer to that number
	length   int
	hardware bool
	written  int64 // nanoseconds, of some clock of the answering end
}

func (a answer) seal(key *Key) []byte { return a.put(key, back, make([]byte, answerBytes)) }

// fill is seal for the way back: what is behind an answer stays.
func (a answer) fill(key *Key, b []byte) []byte {
	a.length = len(b)
	a.put(key, fills, b[:answerBytes])
	return b
}

func (a answer) put(key *Key, k kind, b []byte) []byte {
	clear(b)
	a.write(b)
	binary.BigEndian.PutUint64(b[16:], uint64(a.received))
	binary.BigEndian.PutUint32(b[24:], a.earlier)
	binary.BigEndian.PutUint64(b[28:], uint64(a.left))
	binary.BigEndian.PutUint16(b[36:], uint16(a.length))
	if a.hardware {
		b[38] = 1
	}
	binary.BigEndian.PutUint64(b[40:], uint64(a.written))
	return closed(key, k, b)
}

func openAnswer(key *Key, b []byte) (answer, bool) { return readAnswer(key, back, b) }

// openFilled is of the answer to a request.
func openFilled(key *Key, b []byte) (answer, bool) {
	a, right := readAnswer(key, fills, b[:min(len(b), answerBytes)])
	return a, right && a.length == len(b)
}

func readAnswer(key *Key, k kind, b []byte) (answer, bool) {
	if !whole(key, k, b) {
		return answer{}, false
	}
	return answer{
		head: headOf(b), received: int64(binary.BigEndian.Uint64(b[16:])), earlier: binary.BigEndian.Uint32(b[24:]),
		left: int64(binary.BigEndian.Uint64(b[28:])), length: int(binary.BigEndian.Uint16(b[36:])), hardware: b[38] == 1,
		written: int64(binary.BigEndian.Uint64(b[40:])),
	}, true
}

// nonce is made by who answers, and comes back from where it was sent to.
type nonce = admission.Nonce

// knock is an opening, or the challenge to one.
//
//	16 nonce    32 ticket    40 zeros
type knock struct {
	session uint32
	nonce   nonce
	ticket  uint64 // of an opening, higher than those before: nanoseconds since 1970, of the opening end's clock
}

func (n knock) seal(key *Key, k kind) []byte {
	b := make([]byte, answerBytes)
	head{session: n.session}.write(b)
	copy(b[headBytes:], n.nonce[:])
	binary.BigEndian.PutUint64(b[32:], n.ticket)
	return closed(key, k, b)
}

func openKnock(key *Key, k kind, b []byte) (knock, bool) {
	if !whole(key, k, b) || headOf(b).number != 0 {
		return knock{}, false
	}
	return knock{session: headOf(b).session, nonce: nonce(b[headBytes:]), ticket: binary.BigEndian.Uint64(b[32:])}, true
}

func closed(key *Key, k kind, b []byte) []byte {
	copy(b[tagAt:headBytes], tag(key, k, b[:tagAt], b[headBytes:]))
	return b
}

func whole(key *Key, k kind, b []byte) bool {
	return len(b) == answerBytes && hmac.Equal(b[tagAt:headBytes], tag(key, k, b[:tagAt], b[headBytes:]))
}

func tag(key *Key, k kind, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte{byte(k)})
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)[:tagBytes]
}
