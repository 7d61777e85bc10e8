// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Tickets grow, so each opening is fresh once, and what was recorded is old for ever. What is sent for old ones has a budget
// of its own: it is used up by who replays openings, and by nobody else as long as no clock of those who open is behind what
// was heard before. Then its openings are old, too, and are taken where nobody replays any.
type Tickets struct {
	newest     uint64
	fresh, old Budget
}

// NewTickets has as much for fresh ones as for old ones.
func NewTickets(atOnce, aSecond float64) Tickets {
	return Tickets{fresh: Full(atOnce, aSecond), old: Full(atOnce, aSecond)}
}

// News tells whether a ticket is higher than all before. Who has no key must not be able to make one.
func (t *Tickets) News(ticket uint64) bool {
	if ticket <= t.newest {
		return false
	}
	t.newest = ticket
	return true
}

// May tells whether anything may be sent for an opening that proves nothing about where it is from.
func (t *Tickets) May(now time.Duration, fresh bool) bool {
	if fresh {
		return t.fresh.Take(now)
	}
	return t.old.Take(now)
}
