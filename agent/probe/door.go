package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"bicast/agent/gate"
)

const (
	nonceLasts = 10 * time.Second         // and as long again
	occupied   = 2 * time.Second          // after its last packet a session is still somebody's
	over       = silentFor * longestPause // and has ended: who probes has given up by then
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
}

// door knows whom to answer: one session at a time, from the one address that proved to be where it says it is. Nonces
// are fresh for each session, so what was recorded of an earlier one opens nothing. A packet that is wrong costs a
// comparison and is forgotten.
//
// Tickets of openings grow, so each is fresh once. What is sent for old ones has a budget of its own: it is used up by who
// replays openings, and by nobody else as long as no clock of those who open is behind another's. Then its openings are old,
// too, and are taken where nobody replays any.
type door struct {
	key    Key
	secret [sha256.Size]byte

	session    uint32
	peer       netip.AddrPort
	heard      time.Duration
	sessions   uint64
	seen       gate.Once
	newest     uint64      // ticket
	answers    gate.Budget // of probes
	fresh, old gate.Budget // of openings
	counters   Counters
}

func newDoor(key Key) door {
	d := door{
		key: key, answers: gate.Full(atOnce, mostASecond),
		fresh: gate.Full(knocksASecond, knocksASecond), old: gate.Full(knocksASecond, knocksASecond),
	}
	rand.Read(d.secret[:])
	return d
}

// verdict is what is to be sent back, if anything; answers are made when their times are known.
type verdict struct {
	answers  bool
	to       head
	sendBack []byte
}

func (d *door) take(now time.Duration, from netip.AddrPort, b []byte) verdict {
	if now-d.heard >= over {
		d.session, d.peer = 0, netip.AddrPort{}
	}
	if len(b) >= headBytes && headOf(b).number == 0 {
		return d.opening(now, from, b)
	}
	h, right := openProbe(&d.key, b)
	switch {
	case !right || h.session != d.session || from != d.peer:
		d.counters.Strangers++
	case !d.seen.Fresh(h.number):
		d.counters.Replays++
	default:
		d.seen.Pass(h.number)
		d.heard = now
		if d.answers.Take(now) {
			return verdict{answers: true, to: h}
		}
		d.counters.Refused++
	}
	return verdict{}
}

func (d *door) opening(now time.Duration, from netip.AddrPort, b []byte) verdict {
	k, right := openKnock(&d.key, opens, b)
	if !right || k.session == 0 {
		d.counters.Strangers++
		return verdict{}
	}
	fresh := d.news(k.ticket)
	inUse := d.session != 0 && now-d.heard < occupied
	again := inUse && k.session == d.session && from == d.peer
	switch {
	case again && d.seen.Any(): // who probes has heard our answer
		d.counters.Replays++
	case inUse && !again:
		d.counters.Refused++
	case d.knows(now, from, k):
		d.session, d.peer, d.heard, d.seen = k.session, from, now, gate.Once{}
		d.sessions++
		return verdict{answers: true, to: head{session: k.session}}
	case !d.replies(now, fresh):
		d.counters.Refused++
	case again: // our answer was lost
		return verdict{answers: true, to: head{session: k.session}}
	default:
		challenge := knock{session: k.session, nonce: d.nonce(turn(now), from, k.session)}
		return verdict{sendBack: challenge.seal(&d.key, challenges)}
	}
	return verdict{}
}

// news tells whether a ticket is higher than all before. Who has no key cannot make one.
func (d *door) news(ticket uint64) bool {
	if ticket <= d.newest {
		return false
	}
	d.newest = ticket
	return true
}

// replies tells whether anything may be sent for an opening that proves nothing about where it is from.
func (d *door) replies(now time.Duration, fresh bool) bool {
	if fresh {
		return d.fresh.Take(now)
	}
	return d.old.Take(now)
}

func turn(now time.Duration) uint64 { return uint64(now / nonceLasts) }

func (d *door) knows(now time.Duration, from netip.AddrPort, k knock) bool {
	for _, each := range []uint64{turn(now), turn(now) - 1} {
		expected := d.nonce(each, from, k.session)
		if hmac.Equal(k.nonce[:], expected[:]) {
			return true
		}
	}
	return false
}

func (d *door) nonce(turn uint64, from netip.AddrPort, session uint32) nonce {
	h := hmac.New(sha256.New, d.secret[:])
	b := binary.BigEndian.AppendUint64(nil, turn)
	b = binary.BigEndian.AppendUint64(b, d.sessions)
	b = binary.BigEndian.AppendUint32(b, session)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	h.Write(append(b, from.Addr().AsSlice()...))
	return nonce(h.Sum(nil))
}
