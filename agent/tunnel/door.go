package tunnel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"time"

	"bicast/agent/gate"
)

const (
	nonceLasts  = 10 * time.Second // and as long again
	mostASecond = 64               // challenges of either kind, and at once
)

// door knows who may come in: what it hands out to an address is of that address alone, of some seconds, and void when
// the other end has moved. Nothing is kept of those who were asked, so there is nothing that many of them could fill.
//
// Tickets grow, so each question is fresh once, and what was recorded is old for ever. What is sent for old ones has budgets
// of its own: they are used up by who replays questions, and by nobody else as long as the other end's clock is not set back
// between two agents there. Then its questions are old, too, and are taken where nobody replays any.
type door struct {
	random  io.Reader
	secret  [sha256.Size]byte
	changes uint64

	newest        uint64      // ticket of the other end
	fresh, old    gate.Budget // for challenges
	oldOfThePeers gate.Budget // for answers; a fresh question is always answered
}

func newDoor(random io.Reader) door {
	full := gate.Full(mostASecond, mostASecond)
	d := door{random: random, fresh: full, old: full, oldOfThePeers: full}
	d.read(d.secret[:])
	return d
}

func (d *door) read(b []byte) {
	if _, err := io.ReadFull(d.random, b); err != nil {
		panic(fmt.Sprintf("the source of random numbers ended: %v", err))
	}
}

// nonce is what an address is handed just now.
func (d *door) nonce(now time.Duration, of netip.AddrPort) nonce {
	return d.made(uint64(now/nonceLasts), of)
}

func (d *door) made(turn uint64, of netip.AddrPort) nonce {
	h := hmac.New(sha256.New, d.secret[:])
	h.Write(binary.BigEndian.AppendUint64(nil, turn))
	h.Write(binary.BigEndian.AppendUint64(nil, d.changes))
	address := of.Addr().As16()
	h.Write(address[:])
	h.Write(binary.BigEndian.AppendUint16(nil, of.Port()))
	return nonce(h.Sum(nil))
}

// knows tells whether this was handed to that address not long ago.
func (d *door) knows(now time.Duration, of netip.AddrPort, n nonce) bool {
	turn := uint64(now / nonceLasts)
	for _, each := range []uint64{turn, turn - 1} {
		expected := d.made(each, of)
		if hmac.Equal(n[:], expected[:]) {
			return true
		}
	}
	return false
}

// change makes void what was handed out.
func (d *door) change() { d.changes++ }

// news tells whether a ticket is higher than all before. Who has no key cannot make one, so it is asked of the other end's alone.
func (d *door) news(ticket uint64) bool {
	if ticket <= d.newest {
		return false
	}
	d.newest = ticket
	return true
}

// challenges tells whether a question from an unknown address may be challenged.
func (d *door) challenges(now time.Duration, fresh bool) bool {
	if fresh {
		return d.fresh.Take(now)
	}
	return d.old.Take(now)
}

// answers tells whether a question that has the peer's address may be answered: who replays them writes that on them, too.
func (d *door) answers(now time.Duration, fresh bool) bool {
	return fresh || d.oldOfThePeers.Take(now)
}
