// SPDX-License-Identifier: Apache-2.0

package tunnel

import "time"

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

// End is one end of a tunnel, without a network or a clock. It takes received messages and the time, and returns messages to
// send, and the packet length that passes.
type End struct {
	starts      bool
	searchEvery time.Duration // interval between searches for a longer length
	length      search

	now, shift time.Duration // monotonic time of this end, and its lead over the clock
	heard      time.Duration // 0: never
	rtt        time.Duration
	mtu        int    // as the starting end reports
	moves      uint16 // of the starting end, as the answering end counts them

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

// NewEnd returns an end that sends nothing before its first Tick.
func NewEnd(starts bool, searchEvery time.Duration) *End {
	return &End{starts: starts, searchEvery: searchEvery, now: 1, asked: map[uint64]ask{}}
}

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
	if e.starts {
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

// Moved reports to the answering end that the other end has another address: the path may have changed.
func (e *End) Moved() { e.moves++ }

// Moves returns how often the address of the starting end changed.
func (e *End) Moves() int { return int(e.moves) }

// Tick returns the messages that are due now.
func (e *End) Tick(now time.Duration) []message {
	e.at(now)
	if !e.starts {
		return nil
	}
	for ticket, each := range e.asked {
		if e.now-each.at > answerTimeout {
			if delete(e.asked, ticket); each.length == shortest {
				e.length.recordShort(false)
			}
		}
	}
	var sends []message
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
	if e.starts {
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
func (e *End) measure() []message {
	e.length.checkLost(e.now, e.rtt)
	switch {
	case e.length.ceiling <= shortest:
		return nil
	case e.looked == 0 || e.length.size == 0 && (e.length.known == 0 || e.now-e.looked >= e.searchEvery):
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
	e.length.recordTry(e.now, short.ticket)
	return []message{long, short}
}

func (e *End) ask(length int) message {
	e.ticket++
	e.asked[e.ticket] = ask{e.now, length}
	if length == shortest {
		e.last, e.due = e.now, e.now+askEvery
	}
	return message{kind: question, length: length, mtu: uint16(e.length.known), ticket: e.ticket}
}

// Receive handles a message of the other end.
func (e *End) Receive(now time.Duration, b []byte) []message {
	e.at(now)
	m, whole := decode(b)
	switch {
	case !whole:
	case e.starts && m.kind == answer:
		e.answered(m)
	case !e.starts && m.kind == question: // an answer as long as its question proves the length both ways
		e.heard, e.mtu = e.now, int(m.mtu)
		return []message{{kind: answer, length: m.length, moves: e.moves, ticket: m.ticket}}
	}
	return nil
}

func (e *End) answered(m message) {
	asked, waits := e.asked[m.ticket]
	if !waits || m.length != asked.length {
		return
	}
	delete(e.asked, m.ticket)
	e.heard = e.now
	if m.length == shortest {
		e.rtt = e.now - asked.at
	}
	e.length.heard(e.now, m.ticket, m.length)
	if m.moves != e.moves {
		e.moves, e.looked = m.moves, 0
	}
}
