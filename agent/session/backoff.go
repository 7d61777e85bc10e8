// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math/rand/v2"
	"time"
)

// Waits before the next attempt. All agents reconnect within 3 s after a restart of the controller, spread over that
// time. After a refusal the wait is long, because only a person can change that.
const (
	steady      = 5 * time.Second // a session of this length resets the wait
	firstWait   = 200 * time.Millisecond
	longestWait = 2 * time.Second
	refusedWait = 30 * time.Second
	barredFirst = time.Minute // for a revoked certificate: only joining again helps
	barredWait  = 10 * time.Minute
	lookEvery   = time.Second // interval of checks whether this host has a new certificate
)

type backoff struct {
	step   time.Duration
	random func() float64 // in [0, 1)
}

func newBackoff() backoff { return backoff{random: rand.Float64} }

// wait doubles from failure to failure. Half of it is random.
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
