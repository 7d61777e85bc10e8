// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"sync"

	"bicast/internal/timestamping"
)

// entry is one packet that was sent, or could not be.
type entry struct {
	train, length int
	id            uint32
	sent, heard   bool
	received      int64
	written       int64 // of the answer, as the far end's process says
	answered      int64
	answerCame    int64
}

// ledger is what is known of all packets, by their numbers from 1, while it comes in.
type ledger struct {
	down    bool // the lengths are of answers
	lock    sync.Mutex
	entries []entry
	of      map[uint32]*[2]int64 // by a stamp's id: when it was queued, and when it left
	heard   int
	far     bool
	failed  error
}

// number is what the next packet has.
func (l *ledger) number() uint32 {
	l.lock.Lock()
	defer l.lock.Unlock()
	return uint32(len(l.entries)) + 1
}

// begin is before a packet is sent: its answer may be there before its id is.
func (l *ledger) begin(train, length int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.entries = append(l.entries, entry{train: train, length: length})
}

// wrote is of the last that was begun.
func (l *ledger) wrote(id uint32) {
	l.lock.Lock()
	defer l.lock.Unlock()
	e := &l.entries[len(l.entries)-1]
	e.id, e.sent = id, true
}

func (l *ledger) stamped(event timestamping.Event) {
	l.lock.Lock()
	defer l.lock.Unlock()
	times := l.of[event.ID]
	if times == nil {
		times = new([2]int64)
		l.of[event.ID] = times
	}
	if event.Moment == timestamping.Left {
		times[1] = event.At
	} else {
		times[0] = event.At
	}
}

// took is an answer; the first to each number counts.
func (l *ledger) took(a answer, at int64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if a.number == 0 || int(a.number) > len(l.entries) {
		return
	}
	if e := &l.entries[a.number-1]; !e.heard && e.length == a.length {
		e.heard, e.received, e.written, e.answerCame = true, a.received, a.written, at
		l.heard++
		l.far = a.hardware
	}
	if a.earlier == 0 || int(a.earlier) > len(l.entries) {
		return
	}
	l.entries[a.earlier-1].answered = a.left
}

func (l *ledger) fail(err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// progress is how many answers were heard, and what went wrong.
func (l *ledger) progress() (heard int, failed error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.heard, l.failed
}

// known is of how many of the first so many packets there is an answer, and of how many it is told when that left.
func (l *ledger) known(first int) (heard, answered int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, e := range l.entries[:first] {
		if e.heard {
			heard++
		}
		if e.answered != 0 {
			answered++
		}
	}
	return heard, answered
}

// longest is the longest that came through.
func (l *ledger) longest() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	most := 0
	for _, e := range l.entries {
		if e.heard {
			most = max(most, e.length)
		}
	}
	return most
}

// result is of the first so many.
func (l *ledger) result(first int) Result {
	l.lock.Lock()
	defer l.lock.Unlock()
	which := 0 // when they were queued, where the driver never says when they left
	for _, times := range l.of {
		if times[1] != 0 {
			which = 1
			break
		}
	}
	entries := l.entries[:min(first, len(l.entries))]
	r := Result{Down: l.down, Queued: which == 0 && !l.down, FarHardware: l.far}
	var left map[int]bool
	if l.down {
		left = spacedThere(entries)
	}
	r.LeftOut = len(left)
	for _, e := range entries {
		if !left[e.train] {
			r.Samples = append(r.Samples, l.sample(e, which))
		}
	}
	return r
}

func (l *ledger) sample(e entry, which int) Sample {
	s := Sample{Train: e.train, Length: e.length, Came: e.heard}
	if l.down {
		s.Sent, s.Received = e.answered, e.answerCame
		return s
	}
	s.Received, s.Answered, s.Heard = e.received, e.answered, e.answerCame
	if times := l.of[e.id]; e.sent && times != nil {
		s.Sent = times[which]
	}
	return s
}
