// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Tickets detects replayed openings. Ticket numbers grow, so each opening is fresh once, and a recorded one is old.
// Answers to old openings have a budget of their own, which only replays use up, unless an honest sender's clock goes
// back. Then its openings are old too, and pass while nobody replays.
type Tickets struct {
	newest     uint64
	fresh, old Budget
}

// NewTickets returns equal budgets for fresh and old openings.
func NewTickets(atOnce, aSecond float64) Tickets {
	return Tickets{fresh: Full(atOnce, aSecond), old: Full(atOnce, aSecond)}
}

// Advance records a ticket and reports whether it exceeds all earlier ones. The caller authenticates the ticket first:
// a forged high ticket would make all honest ones old.
func (t *Tickets) Advance(ticket uint64) bool {
	if ticket <= t.newest {
		return false
	}
	t.newest = ticket
	return true
}

// Allow reports whether the budget allows an answer. An opening does not prove its source address, so answers to it
// must be few.
func (t *Tickets) Allow(now time.Duration, fresh bool) bool {
	if fresh {
		return t.fresh.Take(now)
	}
	return t.old.Take(now)
}
