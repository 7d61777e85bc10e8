// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"sync"

	"bicast/internal/timestamping"
)

// entry is one packet, sent or failed.
type entry struct {
	train, length int
	id            uint32
	sent, heard   bool
	received      int64
	written       int64 // when the peer wrote the answer, on its own clock
	answered      int64
	answerCame    int64
}

// ledger collects what is known of all packets, which are numbered from 1.
type ledger struct {
	down        bool // the lengths are those of answers
	lock        sync.Mutex
	entries     []entry
	of          map[uint32]*[2]int64 // queued and departed times by timestamp ID
	heard       int
	farHardware bool
	failed      error
}

// number returns the next packet's number.
func (l *ledger) number() uint32 {
	l.lock.Lock()
	defer l.lock.Unlock()
	return uint32(len(l.entries)) + 1
}

// begin registers a packet before it is sent, because its answer may arrive before its ID is known.
func (l *ledger) begin(train, length int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.entries = append(l.entries, entry{train: train, length: length})
}

// wrote records the ID of the last registered packet.
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

// addAnswer records an answer. Only the first answer to a number counts.
func (l *ledger) addAnswer(a answer, at int64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if a.number == 0 || int(a.number) > len(l.entries) {
		return
	}
	if e := &l.entries[a.number-1]; !e.heard && e.length == a.length {
		e.heard, e.received, e.written, e.answerCame = true, a.received, a.written, at
		l.heard++
		l.farHardware = a.hardware
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

// progress returns the number of answers and the first error.
func (l *ledger) progress() (heard int, failed error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.heard, l.failed
}

// known returns how many of the first packets have an answer, and for how many the departure of the answer is known.
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

// longest returns the length of the longest packet that arrived.
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

// result returns the result for the first packets.
func (l *ledger) result(first int) Result {
	l.lock.Lock()
	defer l.lock.Unlock()
	which := 0 // 0: queued times, for a driver without departure times
	for _, times := range l.of {
		if times[1] != 0 {
			which = 1
			break
		}
	}
	entries := l.entries[:min(first, len(l.entries))]
	r := Result{Down: l.down, Queued: which == 0 && !l.down, FarHardware: l.farHardware}
	var left map[int]bool
	if l.down {
		left = spacedBefore(entries)
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
	s.Received, s.Answered, s.Returned = e.received, e.answered, e.answerCame
	if times := l.of[e.id]; e.sent && times != nil {
		s.Sent = times[which]
	}
	return s
}
