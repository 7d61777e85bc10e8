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

// News reports whether a ticket is higher than all before. A sender without the key must not be able to make one.
func (t *Tickets) News(ticket uint64) bool {
	if ticket <= t.newest {
		return false
	}
	t.newest = ticket
	return true
}

// May reports whether the budget allows an answer to an opening that proves no address.
func (t *Tickets) May(now time.Duration, fresh bool) bool {
	if fresh {
		return t.fresh.Take(now)
	}
	return t.old.Take(now)
}
