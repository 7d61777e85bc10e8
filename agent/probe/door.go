package probe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

const (
	nonceLasts = 10 * time.Second // and as long again
	occupied   = 2 * time.Second  // after its last packet a session is still somebody's
	mostASecond,
	atOnce = 5000, 2000 // answers: trains come at once
)

// Counters are of all that came so far.
type Counters struct {
	Answered  uint64
	Strangers uint64 // not whole, of another key, session or address
	Replays   uint64 // a number for the second time, or far behind
	Refused   uint64 // more a second than is answered, or a session while there is another
}

// door knows whom to answer: one session at a time, from the one address that proved to be where it says it is. Nonces
// are fresh for each session, so what was recorded of an earlier one opens nothing. A packet that is wrong costs a
// comparison and is forgotten.
type door struct {
	key    Key
	told   uint32 // the session to answer; 0: whichever is opened with the key
	secret [sha256.Size]byte

	session  uint32
	peer     netip.AddrPort
	heard    time.Duration
	sessions uint64
	window   window
	allowed  float64
	filled   time.Duration
	counters Counters
}

// verdict is what is to be sent back, if anything; answers are made when their times are known.
type verdict struct {
	answers  bool
	to       head
	sendBack []byte
}

func (d *door) take(now time.Duration, from netip.AddrPort, b []byte) verdict {
	if len(b) >= headBytes && headOf(b).number == 0 {
		return d.opening(now, from, b)
	}
	h, right := openProbe(&d.key, b)
	switch {
	case !right || h.session != d.session || from != d.peer:
		d.counters.Strangers++
	case !d.window.first(h.number):
		d.counters.Replays++
	default:
		d.heard = now
		return d.allow(now, verdict{answers: true, to: h})
	}
	return verdict{}
}

func (d *door) opening(now time.Duration, from netip.AddrPort, b []byte) verdict {
	session, given, right := openKnock(&d.key, opens, b)
	switch {
	case !right || session == 0 || d.told != 0 && session != d.told:
		d.counters.Strangers++
		return verdict{}
	case session == d.session && from == d.peer: // our answer was lost
		return d.allow(now, verdict{answers: true, to: head{session: session}})
	case d.session != 0 && now-d.heard < occupied:
		d.counters.Refused++
		return verdict{}
	case !d.knows(now, from, session, given):
		return d.allow(now, verdict{sendBack: sealKnock(&d.key, challenges, session, d.nonce(turn(now), from, session))})
	}
	d.session, d.peer, d.heard, d.window = session, from, now, window{}
	d.sessions++
	return d.allow(now, verdict{answers: true, to: head{session: session}})
}

// allow holds what goes out to so much a second.
func (d *door) allow(now time.Duration, v verdict) verdict {
	d.allowed = min(atOnce, d.allowed+(now-d.filled).Seconds()*mostASecond)
	d.filled = now
	if d.allowed < 1 {
		d.counters.Refused++
		return verdict{}
	}
	d.allowed--
	return v
}

func turn(now time.Duration) uint64 { return uint64(now / nonceLasts) }

func (d *door) knows(now time.Duration, from netip.AddrPort, session uint32, given nonce) bool {
	for _, each := range []uint64{turn(now), turn(now) - 1} {
		expected := d.nonce(each, from, session)
		if hmac.Equal(given[:], expected[:]) {
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
