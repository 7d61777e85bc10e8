// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// The bounds of what a controller may ask for.
const (
	shortestInterval = 100 * time.Millisecond
	longestInterval  = 60 * time.Second
	defaultInterval  = time.Second
)

// Pace is when reports are due. One that could not go in its time goes when it can and says what is then; those that it
// was late for are never made up.
type pace struct {
	every time.Duration
	due   time.Time
}

func newPace(every time.Duration, now time.Time) pace { return pace{every: every, due: now} }

func (p *pace) sent(now time.Time) {
	p.due = p.due.Add(p.every)
	if p.due.Before(now) {
		p.due = now.Add(p.every)
	}
}

// change makes the next report due one interval from now at the latest.
func (p *pace) change(every time.Duration, now time.Time) {
	p.every = every
	if soonest := now.Add(every); p.due.After(soonest) {
		p.due = soonest
	}
}

// asked makes an interval of what a welcome says: 0 is the default, and the rest is held within bounds.
func asked(ms uint32) time.Duration {
	if ms == 0 {
		return defaultInterval
	}
	return min(max(time.Duration(ms)*time.Millisecond, shortestInterval), longestInterval)
}
