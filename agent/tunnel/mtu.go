// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"math"
	"time"
)

const (
	tryEvery     = 200 * time.Millisecond
	maxLateness  = 100 * time.Millisecond // plus a round trip: the maximum delay of a long question behind a short one
	maxErrorRate = 1e-4                   // probability that all tries of a length that passes are lost
	minTries     = 8                      // tries: a full queue drops long packets more often than short ones
	rememberN    = 32                     // short questions in the estimate of loss
)

// search finds the longest packet that passes both ways. It ignores ICMP, which anyone can forge. A length does not pass if
// its questions stay unanswered while the short questions sent with them are answered. The required number of tries
// depends on the loss of short questions.
type search struct {
	known   int // 0: unknown
	ceiling int // the device's MTU
	size    int // the length under test; 0: none
	good    int // passes
	bad     int // does not pass
	tries   []try
	next    time.Duration // time of the next try

	answered, lost int // recent short questions
}

// try is a pair of questions, a long one and a short one.
type try struct {
	short uint64        // its ticket
	at    time.Duration // time of its answer; 0: none yet
}

// restart begins at the ceiling. The known length stays until a check finds that it no longer passes.
func (s *search) restart(now time.Duration) {
	s.good, s.bad = shortest, s.ceiling+1
	s.begin(now, s.ceiling)
}

// check tests whether the known length still passes.
func (s *search) check(now time.Duration) {
	s.good, s.bad = shortest, s.known+1
	s.begin(now, s.known)
}

func (s *search) begin(now time.Duration, size int) {
	s.size, s.tries, s.next = size, nil, now
}

func (s *search) recordTry(now time.Duration, short uint64) {
	s.tries = append(s.tries, try{short: short})
	s.next = now + tryEvery
}

// heard records an answer.
func (s *search) heard(now time.Duration, ticket uint64, length int) {
	if length == shortest {
		s.recordShort(true)
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

// checkLost gives up the length under test if it was lost often enough.
func (s *search) checkLost(now, rtt time.Duration) {
	if s.size == 0 {
		return
	}
	count := 0
	for _, each := range s.tries {
		if each.at != 0 && now-each.at >= maxLateness+rtt {
			count++
		}
	}
	if count < s.requiredTries() {
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

func (s *search) recordShort(answered bool) {
	if answered {
		s.answered++
	} else {
		s.lost++
	}
	if s.answered+s.lost > rememberN {
		s.answered, s.lost = s.answered/2, s.lost/2
	}
}

// requiredTries returns the number of lost tries that rules out chance, with Laplace's estimate of the loss.
func (s *search) requiredTries() int {
	loss := float64(s.lost+1) / float64(s.answered+s.lost+2)
	return max(minTries, int(math.Ceil(math.Log(maxErrorRate)/math.Log(loss))))
}
