// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"io"
	"net/netip"
	"time"
)

const (
	askEvery   = time.Second
	checkEvery = 10 * time.Second // whether what is known of the length is still so
	patience   = 3 * time.Second  // with a silent other end
	hurryEvery = askEvery / 4     // when an answer is late, so that it is no accident that none came in that time
	hurryFor   = 10 * time.Second
	awaited    = 3 * time.Second       // an answer
	lookEvery  = 10 * time.Minute      // for longer packets to go through; a path that a kernel learned expires as soon
	atOnceLeft = 50 * time.Millisecond // between questions that need not wait
)

// Settings are the parameters of an End.
type Settings struct {
	VNI    uint32
	Key    []byte
	Starts bool
	Peer   netip.AddrPort // where the other end is, or was when another agent knew it
	Looks  time.Duration  // how often longer packets are tried
	Random io.Reader
	Wall   func() time.Time // for tickets, which grow also from one agent to the next; of who starts
}

// End is one end of a tunnel, without a network or a clock. It takes received messages and the time, and returns what to
// send, the other end's address and the packet length that passes.
type End struct {
	settings      Settings
	authenticator authenticator
	length        search

	now, shift time.Duration // of this end, which only grows; what the clock is behind it
	peer       netip.AddrPort
	moves      int
	heard      time.Duration // 0: never
	rtt        time.Duration
	mtu        int // as who starts says

	echo    nonce
	ticket  uint64 // the last one
	asked   map[uint64]ask
	due     time.Duration // the next question
	last    time.Duration // the one before
	checked time.Duration
	looked  time.Duration // 0: look as soon as somebody answers
}

type ask struct {
	at     time.Duration
	length int
}

// Send is a message to send: to the peer, or as a challenge to an address.
type Send struct {
	To    netip.AddrPort // zero: the peer
	Bytes []byte
}

// NewEnd begins at its first Tick.
func NewEnd(settings Settings) *End {
	e := &End{settings: settings, now: 1, peer: settings.Peer, asked: map[uint64]ask{}}
	e.authenticator = newAuthenticator(settings.Random)
	return e
}

// Peer is where the other end is; not valid: nobody proved to be it yet.
func (e *End) Peer() netip.AddrPort { return e.peer }

// Moves is how often that was another address than before.
func (e *End) Moves() int { return e.moves }

// RTT is of the last short question; 0: none was answered.
func (e *End) RTT() time.Duration { return e.rtt }

// Silence is how long nothing of the other end was heard; false: nothing ever.
func (e *End) Silence(now time.Duration) (time.Duration, bool) {
	e.at(now)
	return e.now - e.heard, e.heard != 0
}

// Alive tells whether the other end is heard.
func (e *End) Alive(now time.Duration) bool {
	silence, ever := e.Silence(now)
	return ever && silence <= patience
}

// MTU is the longest packet that goes through both ways; 0: not known.
func (e *End) MTU() int {
	if e.settings.Starts {
		return e.length.known
	}
	return e.mtu
}

// at follows a clock. One that was set back goes on from where it was.
func (e *End) at(now time.Duration) {
	now += e.shift
	if now < e.now {
		e.shift += e.now - now
		now = e.now
	}
	e.now = now
}

// Ceiling says how long a packet the device takes.
func (e *End) Ceiling(bytes int) {
	if bytes != e.length.ceiling {
		e.length.ceiling, e.looked = bytes, 0
	}
}

// Changed says that addresses, routes or devices are other ones: the other end shall know at once.
func (e *End) Changed(now time.Duration) {
	e.at(now)
	e.due = min(e.due, e.now+atOnceLeft)
	e.looked = 0
}

// Tick says what is due; Next how long nothing will be.
func (e *End) Tick(now time.Duration) []Send {
	e.at(now)
	if !e.settings.Starts {
		return nil
	}
	for ticket, each := range e.asked {
		if e.now-each.at > awaited {
			if delete(e.asked, ticket); each.length == shortest {
				e.length.count(false)
			}
		}
	}
	var sends []Send
	alive := e.heard != 0 && e.now-e.heard <= patience
	if alive {
		sends = e.measure()
	}
	if e.now >= e.next() {
		sends = append(sends, e.ask(shortest))
	}
	return sends
}

// Next is how long after the last Tick there is nothing to do.
func (e *End) Next() time.Duration {
	wait := askEvery
	if e.settings.Starts {
		wait = min(wait, e.next()-e.now)
		if e.length.size != 0 {
			wait = min(wait, tryEvery/4)
		}
	}
	return max(wait, time.Millisecond)
}

// next is when a question is due.
func (e *End) next() time.Duration {
	late := e.heard + e.rtt + askEvery
	if e.heard == 0 || e.now-late > hurryFor {
		return e.due
	}
	return min(e.due, max(late, e.last)+hurryEvery)
}

// measure looks for the longest that goes through.
func (e *End) measure() []Send {
	e.length.missed(e.now, e.rtt)
	switch {
	case e.length.ceiling <= shortest:
		return nil
	case e.looked == 0 || e.length.size == 0 && (e.length.known == 0 || e.now-e.looked >= e.settings.Looks):
		e.looked, e.checked = e.now, e.now
		e.length.look(e.now)
	case e.length.size == 0 && e.now-e.checked >= checkEvery:
		e.checked = e.now
		e.length.check(e.now)
	}
	if e.length.size == 0 || e.now < e.length.next {
		return nil
	}
	long, short := e.ask(e.length.size), e.ask(shortest)
	e.length.tried(e.now, binary.BigEndian.Uint64(short.Bytes[12:]))
	return []Send{long, short}
}

func (e *End) ask(length int) Send {
	e.ticket = max(e.ticket+1, uint64(max(0, e.settings.Wall().UnixNano())))
	m := message{kind: question, length: length, mtu: e.length.known, ticket: e.ticket, nonce: e.echo}
	e.asked[m.ticket] = ask{e.now, length}
	if length == shortest {
		e.last, e.due = e.now, e.now+askEvery
	}
	return e.send(m)
}

// Inner takes what came by the device: from the peer's address, as far as the kernel can tell.
func (e *End) Inner(now time.Duration, b []byte) []Send {
	e.at(now)
	m, ours := open(e.settings.VNI, e.settings.Key, b)
	switch {
	case !ours:
		return nil
	case e.settings.Starts:
		return e.answered(m)
	case m.kind == question && e.peer.IsValid():
		if e.authenticator.Knows(e.now, e.peer, e.settings.VNI, m.nonce) {
			e.heard, e.mtu = e.now, m.mtu
		}
		if e.authenticator.answers(e.now, e.authenticator.News(m.ticket)) {
			return []Send{e.answer(m)}
		}
	}
	return nil
}

func (e *End) answered(m message) []Send {
	asked, waits := e.asked[m.ticket]
	if !waits {
		return nil
	}
	switch {
	case m.kind == answer && m.length == asked.length:
		delete(e.asked, m.ticket)
		e.heard, e.echo = e.now, m.nonce
		if m.length == shortest {
			e.rtt = e.now - asked.at
		}
		e.length.heard(e.now, m.ticket, m.length)
	case m.kind == challenge: // we are seen at another address than before, so the path may be another one
		delete(e.asked, m.ticket)
		e.echo, e.looked = m.nonce, 0
		return []Send{e.ask(shortest)}
	}
	return nil
}

// Outer takes what came to the device's UDP port, from whatever address. Only who answers wants to know of it.
func (e *End) Outer(now time.Duration, from netip.AddrPort, b []byte) []Send {
	e.at(now)
	if e.settings.Starts || from == e.peer {
		return nil
	}
	m, ours := open(e.settings.VNI, e.settings.Key, b)
	if !ours || m.kind != question {
		return nil
	}
	fresh := e.authenticator.News(m.ticket)
	switch {
	case e.authenticator.Knows(e.now, from, e.settings.VNI, m.nonce):
		if e.peer.IsValid() {
			e.moves++
		}
		e.peer, e.heard, e.mtu = from, e.now, m.mtu
		e.authenticator.Void()
		return []Send{e.answer(m)}
	case e.authenticator.May(e.now, fresh):
		reply := e.send(message{kind: challenge, ticket: m.ticket, nonce: e.authenticator.Nonce(e.now, from, e.settings.VNI)})
		reply.To = from
		return []Send{reply}
	}
	return nil
}

// An answer is as long as its question, and so proves the length both ways.
func (e *End) answer(m message) Send {
	return e.send(message{kind: answer, length: m.length, ticket: m.ticket, nonce: e.authenticator.Nonce(e.now, e.peer, e.settings.VNI)})
}

func (e *End) send(m message) Send { return Send{Bytes: m.seal(e.settings.VNI, e.settings.Key)} }
