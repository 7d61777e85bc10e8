// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"math"
	"time"
)

const (
	tryEvery  = 200 * time.Millisecond
	late      = 100 * time.Millisecond // and a round trip: a long one is later than a short one by no more
	unlikely  = 1e-4                   // that all tries of a length that goes through are lost
	fewest    = 8                      // tries: a queue that is full drops long ones rather than short ones
	rememberN = 32                     // short questions of which it is known whether they were answered
)

// search finds the longest that goes through both ways. Nothing is believed of what the network says: a length does not
// go through when questions of it stay unanswered while short ones, each sent with one of them, are answered. How many it
// takes depends on how many short ones are lost.
type search struct {
	known   int // 0: not yet, or no more
	ceiling int // of the device: longer ones cannot be sent
	size    int // that is tried; 0: none
	good    int // goes through
	bad     int // does not
	tries   []try
	next    time.Duration // when to try

	answered, lost int // short questions, the last ones
}

// try is a pair of questions, a long one and a short one.
type try struct {
	short uint64        // its ticket
	at    time.Duration // when that was answered; 0: not yet
}

// look restarts the search from the ceiling. The known length stays until a check finds that it no longer passes.
func (s *search) look(now time.Duration) {
	s.good, s.bad = shortest, s.ceiling+1
	s.begin(now, s.ceiling)
}

// check tries whether what is known still goes through.
func (s *search) check(now time.Duration) {
	s.good, s.bad = shortest, s.known+1
	s.begin(now, s.known)
}

func (s *search) begin(now time.Duration, size int) {
	s.size, s.tries, s.next = size, nil, now
}

// tried tells it of a pair that was sent.
func (s *search) tried(now time.Duration, short uint64) {
	s.tries = append(s.tries, try{short: short})
	s.next = now + tryEvery
}

// heard tells it of an answer.
func (s *search) heard(now time.Duration, ticket uint64, length int) {
	if length == shortest {
		s.count(true)
		for i := range s.tries {
			if s.tries[i].short == ticket {
				s.tries[i].at = now
			}
		}
	}
	if s.size != 0 && length == s.size {
		s.good = s.size
		s.step(now)
	}
}

// missed tells whether what is tried was lost often enough, and goes on when it was.
func (s *search) missed(now, rtt time.Duration) {
	if s.size == 0 {
		return
	}
	count := 0
	for _, each := range s.tries {
		if each.at != 0 && now-each.at >= late+rtt {
			count++
		}
	}
	if count < s.enough() {
		return
	}
	s.bad = s.size
	if s.size <= s.known {
		s.known = 0
	}
	s.step(now)
}

func (s *search) step(now time.Duration) {
	switch {
	case s.bad-s.good <= 1:
		s.known, s.size, s.tries = s.good, 0, nil
	case s.good < s.known && s.known < s.bad:
		s.begin(now, s.known)
	default:
		s.begin(now, (s.good+s.bad)/2)
	}
}

// count keeps how many short questions were answered.
func (s *search) count(answered bool) {
	if answered {
		s.answered++
	} else {
		s.lost++
	}
	if s.answered+s.lost > rememberN {
		s.answered, s.lost = s.answered/2, s.lost/2
	}
}

// enough is how many lost tries are no accident, by Laplace's estimate of how likely one is.
func (s *search) enough() int {
	loss := float64(s.lost+1) / float64(s.answered+s.lost+2)
	return max(fewest, int(math.Ceil(math.Log(unlikely)/math.Log(loss))))
}
