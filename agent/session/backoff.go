// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math/rand/v2"
	"time"
)

// How long to wait before the next attempt. A controller that was started again has all its agents back within 3 s,
// and not all in one moment; one that refused us is asked seldom, for only people can change its mind.
const (
	steady      = 5 * time.Second // a session that lived so long was a good one
	firstWait   = 200 * time.Millisecond
	longestWait = 2 * time.Second
	refusedWait = 30 * time.Second
	barredFirst = time.Minute // by a controller that does not know our certificate any more: only joining again helps,
	barredWait  = 10 * time.Minute
	lookEvery   = time.Second // and that we see by ourselves
)

type backoff struct {
	step   time.Duration
	random func() float64 // in [0, 1)
}

func newBackoff() backoff { return backoff{random: rand.Float64} }

// wait doubles from one failure to the next; half of it is chance.
func (b *backoff) wait(outcome outcome) time.Duration {
	switch {
	case outcome.barred:
		b.step = min(max(2*b.step, barredFirst), barredWait)
	case outcome.refused:
		b.step = refusedWait
	case outcome.lived >= steady || b.step == 0:
		b.step = firstWait
	default:
		b.step = min(2*b.step, longestWait)
	}
	return b.step/2 + time.Duration(b.random()*float64(b.step/2))
}
