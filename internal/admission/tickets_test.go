// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"testing"
	"time"
)

func TestTicketsAdvanceAcceptsATicketOnce(t *testing.T) {
	tickets := NewTickets(5, 5)
	var said []bool
	for _, each := range []uint64{0, 3, 3, 2, 5, 4, 1<<64 - 1, 1<<64 - 1, 0} {
		said = append(said, tickets.Advance(each))
	}
	if expected := []bool{false, true, false, false, true, false, true, false, false}; !slices.Equal(said, expected) {
		t.Fatalf("%v, expected %v", said, expected)
	}
}

func TestTicketsReplaysHaveABudgetOfTheirOwn(t *testing.T) {
	tickets := NewTickets(5, 5)
	at := func(now time.Duration, fresh bool) (sent int) {
		for range 1000 {
			if tickets.Allow(now, fresh) {
				sent++
			}
		}
		return sent
	}
	for _, now := range []time.Duration{time.Hour, 2 * time.Hour} {
		if old, fresh, again := at(now, false), at(now, true), at(now, false); old != 5 || fresh != 5 || again != 0 {
			t.Fatalf("%d, %d and %d were sent, expected 5, 5 and 0", old, fresh, again)
		}
	}
}
