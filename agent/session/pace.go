// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// The bounds of the interval that a controller may order.
const (
	shortestInterval = 100 * time.Millisecond
	longestInterval  = 60 * time.Second
	defaultInterval  = time.Second
)

// pace schedules reports. A delayed report has the state of its departure, and missed reports are skipped.
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

// change sets the interval. The next report is due within one new interval.
func (p *pace) change(every time.Duration, now time.Time) {
	p.every = every
	if soonest := now.Add(every); p.due.After(soonest) {
		p.due = soonest
	}
}

// asked returns the interval of a welcome, limited to the bounds; 0 means the default.
func asked(ms uint32) time.Duration {
	if ms == 0 {
		return defaultInterval
	}
	return min(max(time.Duration(ms)*time.Millisecond, shortestInterval), longestInterval)
}
