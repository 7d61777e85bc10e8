// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"io"
	"net/netip"
	"time"
)

const (
	askEvery       = time.Second
	checkEvery     = 10 * time.Second // interval between checks of the known length
	deadAfter      = 3 * time.Second  // the other end is dead after this silence
	hurryEvery     = askEvery / 4     // interval between questions after a late answer: a silence is then no coincidence
	hurryFor       = 10 * time.Second
	answerTimeout  = 3 * time.Second
	searchInterval = 10 * time.Minute      // for a longer length; Linux forgets a learned path MTU after the same time
	urgentInterval = 50 * time.Millisecond // minimum between urgent questions
)

// Settings are the parameters of an End.
type Settings struct {
	VNI         uint32
	Key         []byte
	Starts      bool
	Peer        netip.AddrPort // the other end's address, or the one that an earlier agent knew
	SearchEvery time.Duration  // interval between searches for a longer length
	Random      io.Reader
	Wall        func() time.Time // of the starting end: tickets must grow across restarts
}

// End is one end of a tunnel, without a network or a clock. It takes received messages and the time, and returns what to
// send, the other end's address and the packet length that passes.
type End struct {
	settings      Settings
	authenticator authenticator
	length        search

	now, shift time.Duration // monotonic time of this end, and its lead over the clock
	peer       netip.AddrPort
	moves      int
	heard      time.Duration // 0: never
	rtt        time.Duration
	mtu        int // as the starting end reports

	echo    nonce
	ticket  uint64 // the last ticket
	asked   map[uint64]ask
	due     time.Duration // time of the next question
	last    time.Duration // time of the previous question
	checked time.Duration
	looked  time.Duration // 0: search after the next answer
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

// NewEnd returns an end that sends nothing before its first Tick.
func NewEnd(settings Settings) *End {
	e := &End{settings: settings, now: 1, peer: settings.Peer, asked: map[uint64]ask{}}
	e.authenticator = newAuthenticator(settings.Random)
	return e
}

// Peer returns the verified address of the other end. It is invalid before the first verification.
func (e *End) Peer() netip.AddrPort { return e.peer }

// Moves returns how often the address of the other end changed.
func (e *End) Moves() int { return e.moves }

// RTT returns the round trip of the last answered short question; 0: none.
func (e *End) RTT() time.Duration { return e.rtt }

// Silence returns the time since the other end's last message; false: it never sent one.
func (e *End) Silence(now time.Duration) (time.Duration, bool) {
	e.at(now)
	return e.now - e.heard, e.heard != 0
}

// Alive reports whether the other end sent a message recently.
func (e *End) Alive(now time.Duration) bool {
	silence, ever := e.Silence(now)
	return ever && silence <= deadAfter
}

// MTU returns the longest packet that passes both ways; 0: unknown.
func (e *End) MTU() int {
	if e.settings.Starts {
		return e.length.known
	}
	return e.mtu
}

// at advances the end's time. It absorbs steps back of the clock.
func (e *End) at(now time.Duration) {
	now += e.shift
	if now < e.now {
		e.shift += e.now - now
		now = e.now
	}
	e.now = now
}

// Ceiling sets the device's MTU.
func (e *End) Ceiling(bytes int) {
	if bytes != e.length.ceiling {
		e.length.ceiling, e.looked = bytes, 0
	}
}

// Changed reports a change of addresses, routes or devices, so that the other end learns of it at once.
func (e *End) Changed(now time.Duration) {
	e.at(now)
	e.due = min(e.due, e.now+urgentInterval)
	e.looked = 0
}

// Tick returns the messages that are due now.
func (e *End) Tick(now time.Duration) []Send {
	e.at(now)
	if !e.settings.Starts {
		return nil
	}
	for ticket, each := range e.asked {
		if e.now-each.at > answerTimeout {
			if delete(e.asked, ticket); each.length == shortest {
				e.length.recordShort(false)
			}
		}
	}
	var sends []Send
	alive := e.heard != 0 && e.now-e.heard <= deadAfter
	if alive {
		sends = e.measure()
	}
	if e.now >= e.next() {
		sends = append(sends, e.ask(shortest))
	}
	return sends
}

// Next returns the time from the last Tick to the next.
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

// next returns the time of the next question.
func (e *End) next() time.Duration {
	late := e.heard + e.rtt + askEvery
	if e.heard == 0 || e.now-late > hurryFor {
		return e.due
	}
	return min(e.due, max(late, e.last)+hurryEvery)
}

// measure continues the search for the longest packet that passes.
func (e *End) measure() []Send {
	e.length.checkLost(e.now, e.rtt)
	switch {
	case e.length.ceiling <= shortest:
		return nil
	case e.looked == 0 || e.length.size == 0 && (e.length.known == 0 || e.now-e.looked >= e.settings.SearchEvery):
		e.looked, e.checked = e.now, e.now
		e.length.restart(e.now)
	case e.length.size == 0 && e.now-e.checked >= checkEvery:
		e.checked = e.now
		e.length.check(e.now)
	}
	if e.length.size == 0 || e.now < e.length.next {
		return nil
	}
	long, short := e.ask(e.length.size), e.ask(shortest)
	e.length.recordTry(e.now, binary.BigEndian.Uint64(short.Bytes[12:]))
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

// Inner handles a message from the device. Its outer source is the peer's address, but anyone can forge that.
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
		if e.authenticator.answers(e.now, e.authenticator.Advance(m.ticket)) {
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
	case m.kind == challenge: // the other end sees us at a new address, so the path may have changed
		delete(e.asked, m.ticket)
		e.echo, e.looked = m.nonce, 0
		return []Send{e.ask(shortest)}
	}
	return nil
}

// Outer handles a message to the device's UDP port from any address. Only the answering end uses it.
func (e *End) Outer(now time.Duration, from netip.AddrPort, b []byte) []Send {
	e.at(now)
	if e.settings.Starts || from == e.peer {
		return nil
	}
	m, ours := open(e.settings.VNI, e.settings.Key, b)
	if !ours || m.kind != question {
		return nil
	}
	fresh := e.authenticator.Advance(m.ticket)
	switch {
	case e.authenticator.Knows(e.now, from, e.settings.VNI, m.nonce):
		if e.peer.IsValid() {
			e.moves++
		}
		e.peer, e.heard, e.mtu = from, e.now, m.mtu
		e.authenticator.Void()
		return []Send{e.answer(m)}
	case e.authenticator.Allow(e.now, fresh):
		reply := e.send(message{kind: challenge, ticket: m.ticket, nonce: e.authenticator.Nonce(e.now, from, e.settings.VNI)})
		reply.To = from
		return []Send{reply}
	}
	return nil
}

// answer returns an answer as long as its question, which proves the length both ways.
func (e *End) answer(m message) Send {
	return e.send(message{kind: answer, length: m.length, ticket: m.ticket, nonce: e.authenticator.Nonce(e.now, e.peer, e.settings.VNI)})
}

func (e *End) send(m message) Send { return Send{Bytes: m.seal(e.settings.VNI, e.settings.Key)} }
