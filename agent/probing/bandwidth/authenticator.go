// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"crypto/rand"
	"net/netip"
	"time"

	"bicast/internal/admission"
)

const (
	occupied = 2 * time.Second          // after its last packet a session is still somebody's
	over     = silentFor * longestPause // and has ended: who probes has given up by then
	mostASecond,
	atOnce = 5000, 2000 // answers: trains come at once
	knocksASecond = 10 // and at once: who opens knocks five times a second
)

// Counters are of all that came so far.
type Counters struct {
	Answered  uint64
	Strangers uint64 // not whole, of another key, session or address
	Replays   uint64 // a number for the second time, or far behind; an opening of a session that is probed
	Refused   uint64 // more a second than is answered, or a session while there is another
	Unsent    uint64 // answers that this host could not send, such as one that is too long for its device
}

// authenticator knows whom to answer: one session at a time, from the one address that proved to be where it says it is. Nonces
// are void with each session that is opened, so what was recorded of an earlier one opens nothing. A packet that is wrong
// costs a comparison or two and is forgotten.
type authenticator struct {
	key     Key
	proof   admission.Proof
	tickets admission.Tickets

	session  uint32
	peer     netip.AddrPort
	heard    time.Duration
	seen     admission.Once
	answers  admission.Budget // of probes
	counters Counters
}

func newAuthenticator(key Key) authenticator {
	return authenticator{
		key: key, proof: admission.NewProof(rand.Reader), tickets: admission.NewTickets(knocksASecond, knocksASecond),
		answers: admission.Full(atOnce, mostASecond),
	}
}

// verdict is what is to be sent back, if anything; answers are made when their times are known.
type verdict struct {
	answers  bool
	to       request // without a length it was a probe
	sendBack []byte
}

func (d *authenticator) take(now time.Duration, from netip.AddrPort, b []byte) verdict {
	if now-d.heard >= over {
		d.session, d.peer = 0, netip.AddrPort{}
	}
	if len(b) >= headBytes && headOf(b).number == 0 {
		return d.opening(now, from, b)
	}
	h, right := d.asked(b)
	switch {
	case !right || h.session != d.session || from != d.peer:
		d.counters.Strangers++
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

func (d *authenticator) opening(now time.Duration, from netip.AddrPort, b []byte) verdict {
	k, right := openKnock(&d.key, opens, b)
	if !right || k.session == 0 {
		d.counters.Strangers++
		return verdict{}
	}
	fresh := d.tickets.News(k.ticket)
	inUse := d.session != 0 && now-d.heard < occupied
	again := inUse && k.session == d.session && from == d.peer
	switch {
	case again && d.seen.Any(): // who probes has heard our answer
		d.counters.Replays++
	case inUse && !again:
		d.counters.Refused++
	case d.proof.Knows(now, from, k.session, k.nonce):
		d.session, d.peer, d.heard, d.seen = k.session, from, now, admission.Once{}
		d.proof.Void()
		return verdict{answers: true, to: request{head: head{session: k.session}}}
	case !d.tickets.May(now, fresh):
		d.counters.Refused++
	case again: // our answer was lost
		return verdict{answers: true, to: request{head: head{session: k.session}}}
	default:
		challenge := knock{session: k.session, nonce: d.proof.Nonce(now, from, k.session)}
		return verdict{sendBack: challenge.seal(&d.key, challenges)}
	}
	return verdict{}
}
