// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"crypto/rand"
	"net/netip"
	"time"

	"bicast/internal/admission"
)

const (
	occupied    = 2 * time.Second          // after its last packet, a session is still in use
	forgetAfter = silentFor * longestPause // after its last packet, a session has ended: the prober has given up
	answersPerSecond,
	answerBurst = 5000, 2000 // answers per second and at once, because trains arrive as bursts
	openingsPerSecond = 10 // also the burst; a prober sends five openings a second
)

// Counters are the counts since the start.
type Counters struct {
	Answered        uint64
	Unauthenticated uint64 // incomplete, or with another key, session or address
	Replays         uint64 // a repeated or old number, or an opening of a running session
	Refused         uint64 // above the rate limit, or a session while another one is in use
	Unsent          uint64 // answers that this host failed to send, for example too long for the device
}

// authenticator decides which packets to answer: one session at a time, from the one address that was proved. Each
// new session voids earlier nonces, so a recorded session opens nothing. An invalid packet costs one or two
// comparisons and changes only a counter.
type authenticator struct {
	key     Key
	proof   admission.Proof
	tickets admission.Tickets

	session  uint32
	peer     netip.AddrPort
	heard    time.Duration
	seen     admission.Once
	answers  admission.Budget // for answers to probes
	counters Counters
}

func newAuthenticator(key Key) authenticator {
	return authenticator{
		key: key, proof: admission.NewProof(rand.Reader), tickets: admission.NewTickets(openingsPerSecond, openingsPerSecond),
		answers: admission.Full(answerBurst, answersPerSecond),
	}
}

// verdict says what to send back. The caller makes answers when their times are known.
type verdict struct {
	answers  bool
	to       request // without a length: to a probe
	sendBack []byte
}

func (d *authenticator) judge(now time.Duration, from netip.AddrPort, b []byte) verdict {
	if now-d.heard >= forgetAfter {
		d.session, d.peer = 0, netip.AddrPort{}
	}
	if len(b) >= headBytes && headOf(b).number == 0 {
		return d.judgeOpening(now, from, b)
	}
	h, right := d.asked(b)
	switch {
	case !right || h.session != d.session || from != d.peer:
		d.counters.Unauthenticated++
	case !d.seen.Fresh(h.number):
		d.counters.Replays++
	default:
		d.seen.Pass(h.number)
		d.heard = now
		if d.answers.Spend(now, share(h.length)) {
			return verdict{answers: true, to: h}
		}
		d.counters.Refused++
	}
	return verdict{}
}

func (d *authenticator) asked(b []byte) (request, bool) {
	if r, right := openRequest(&d.key, b); right {
		return r, true
	}
	h, right := openProbe(&d.key, b)
	return request{head: h}, right
}

func (d *authenticator) judgeOpening(now time.Duration, from netip.AddrPort, b []byte) verdict {
	k, right := openHandshake(&d.key, kindOpening, b)
	if !right || k.session == 0 {
		d.counters.Unauthenticated++
		return verdict{}
	}
	fresh := d.tickets.Advance(k.ticket)
	inUse := d.session != 0 && now-d.heard < occupied
	again := inUse && k.session == d.session && from == d.peer
	switch {
	case again && d.seen.Any(): // the prober has received our answer
		d.counters.Replays++
	case inUse && !again:
		d.counters.Refused++
	case d.proof.Knows(now, from, k.session, k.nonce):
		d.session, d.peer, d.heard, d.seen = k.session, from, now, admission.Once{}
		d.proof.Void()
		return verdict{answers: true, to: request{head: head{session: k.session}}}
	case !d.tickets.Allow(now, fresh):
		d.counters.Refused++
	case again: // our answer was lost
		return verdict{answers: true, to: request{head: head{session: k.session}}}
	default:
		challenge := handshake{session: k.session, nonce: d.proof.Nonce(now, from, k.session)}
		return verdict{sendBack: challenge.seal(&d.key, kindChallenge)}
	}
	return verdict{}
}
