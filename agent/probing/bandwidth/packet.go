// SPDX-License-Identifier: Apache-2.0

// Package bandwidth measures the rate of one path with UDP packets of many lengths. The kernels timestamp when each packet and
// its answer leave and arrive (internal/timestamping). A Reflector answers, a Prober measures, and
// controller/features/probing/probe_evaluation.py evaluates the result.
//
//	opening ────────────────▶
//	        ◀─────── challenge, to the source address of the opening
//	opening with its nonce ─▶            the session is bound to this address
//	        ◀────────── answer to number 0
//	probe, of any length ───▶            numbers from 1
//	        ◀────────── answer, with the time that an earlier answer left
//	request, of 64 bytes ───▶            for the way back: with the length of the answer
//	        ◀────────── answer of that length, also with that time
//
// The protocol is not an amplifier. An answer longer than its request goes only to an address that returned the nonce of a
// challenge. With a forged source address nobody receives that nonce, even after recording sessions. Each request has its
// length under the key and is answered once. The rate of all answers is limited, also for key holders (plan.go: share).
package bandwidth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"bicast/internal/admission"
)

// Lengths of UDP payload in bytes.
const (
	Shortest     = headBytes
	ShortestDown = answerBytes
	Longest      = 1<<16 - 1 - 8 - 20

	headBytes   = 16
	answerBytes = 64 // of all packets but probes and answers with a requested length
	tagAt       = 8
	tagBytes    = 8
)

// Key is the secret that both ends share.
type Key [32]byte

type kind byte

// The kind is part of the tag, so that no packet can pass as another kind or be reflected.
const (
	kindProbe kind = 1 + iota
	kindAnswer
	kindOpening
	kindChallenge
	kindRequest
	kindLongAnswer
)

// head begins every packet. In an answer, number is that of the probe. Openings and challenges have number 0.
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

// sealProbe writes the head of a probe into b. The payload behind it stays.
func sealProbe(key *Key, h head, b []byte) {
	h.write(b)
	copy(b[tagAt:headBytes], probeTag(key, b))
}

// openProbe returns false for a packet that is incomplete or has another key.
func openProbe(key *Key, b []byte) (head, bool) {
	if len(b) < Shortest || len(b) > Longest || !hmac.Equal(b[tagAt:headBytes], probeTag(key, b)) {
		return head{}, false
	}
	return headOf(b), true
}

// probeTag covers the length but not the payload, so that long packets cost the hosts no more time than short ones.
func probeTag(key *Key, b []byte) []byte {
	return tag(key, kindProbe, binary.BigEndian.AppendUint16(slices.Clone(b[:tagAt]), uint16(len(b))))
}

// request asks for an answer of a given length, to measure the way back.
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
	return addTag(key, kindRequest, b)
}

func openRequest(key *Key, b []byte) (request, bool) {
	if !hasTag(key, kindRequest, b) {
		return request{}, false
	}
	r := request{headOf(b), int(binary.BigEndian.Uint16(b[16:]))}
	return r, r.length >= ShortestDown && r.length <= Longest
}

// answer answers a probe with a constant length, so that the way back delays all alike. The answer to a request has the
// requested length, with incompressible bytes behind the first 64.
//
//	16 received    24 number of an earlier answer    28 when that left
//	36 length of the probe, or its own to a request    38 1: hardware timestamps    39 zero
//	40 time of writing    48 zeros
type answer struct {
	head
	received int64 // nanoseconds since 1970 on the answering end's clock; 0: unknown
	earlier  uint32
	left     int64 // when the answer to that number left
	length   int
	hardware bool
	written  int64 // nanoseconds on any clock of the answering end
}

func (a answer) seal(key *Key) []byte { return a.put(key, kindAnswer, make([]byte, answerBytes)) }

// fill is seal for the way back. It keeps the bytes behind the answer.
func (a answer) fill(key *Key, b []byte) []byte {
	a.length = len(b)
	a.put(key, kindLongAnswer, b[:answerBytes])
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
	return addTag(key, k, b)
}

func openAnswer(key *Key, b []byte) (answer, bool) { return readAnswer(key, kindAnswer, b) }

// openFilled opens the answer to a request.
func openFilled(key *Key, b []byte) (answer, bool) {
	a, right := readAnswer(key, kindLongAnswer, b[:min(len(b), answerBytes)])
	return a, right && a.length == len(b)
}

func readAnswer(key *Key, k kind, b []byte) (answer, bool) {
	if !hasTag(key, k, b) {
		return answer{}, false
	}
	return answer{
		head: headOf(b), received: int64(binary.BigEndian.Uint64(b[16:])), earlier: binary.BigEndian.Uint32(b[24:]),
		left: int64(binary.BigEndian.Uint64(b[28:])), length: int(binary.BigEndian.Uint16(b[36:])), hardware: b[38] == 1,
		written: int64(binary.BigEndian.Uint64(b[40:])),
	}, true
}

// nonce proves the address that it was sent to.
type nonce = admission.Nonce

// handshake is an opening or a challenge.
//
//	16 nonce    32 ticket    40 zeros
type handshake struct {
	session uint32
	nonce   nonce
	ticket  uint64 // of an opening, increasing: nanoseconds since 1970 on the prober's clock
}

func (n handshake) seal(key *Key, k kind) []byte {
	b := make([]byte, answerBytes)
	head{session: n.session}.write(b)
	copy(b[headBytes:], n.nonce[:])
	binary.BigEndian.PutUint64(b[32:], n.ticket)
	return addTag(key, k, b)
}

func openHandshake(key *Key, k kind, b []byte) (handshake, bool) {
	if !hasTag(key, k, b) || headOf(b).number != 0 {
		return handshake{}, false
	}
	return handshake{session: headOf(b).session, nonce: nonce(b[headBytes:]), ticket: binary.BigEndian.Uint64(b[32:])}, true
}

func addTag(key *Key, k kind, b []byte) []byte {
	copy(b[tagAt:headBytes], tag(key, k, b[:tagAt], b[headBytes:]))
	return b
}

func hasTag(key *Key, k kind, b []byte) bool {
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
