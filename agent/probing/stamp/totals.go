// SPDX-License-Identifier: Apache-2.0

package stamp

import "time"

const (
	felt       = 34 * time.Millisecond  // the delay that who acts on what he sees or hears begins to feel
	readWithin = 250 * time.Millisecond // of its coming: counts are never taken back, and this process may stand still
	missed     = 100 * time.Millisecond // a packet is lost when one that was sent so much later is answered first
)

// Totals are of all packets that are answered or lost. They only grow.
type Totals struct {
	Sent, Lost          uint64
	LostThere, LostBack uint64 // of the lost: the rest of them is not known to be either
	Late                uint64 // answered, and felt longer on the way than the least of the minute before
}

// Totals are since the first packet.
func (h *History) Totals(now time.Duration) Totals {
	h.settle(now)
	return h.totals
}

// settle counts each packet once. Answers are read in the order in which they come, so one that is missed was not read late.
func (h *History) settle(now time.Duration) {
	for until := h.until(max(now-lostAfter-readWithin, h.newest-missed)); h.settled < until; h.settled++ {
		t := &h.trips[h.settled]
		h.totals.Sent++
		if t.lost() {
			h.totals.Lost++
		}
		if t.timed() && t.rtt() > h.leastBefore(h.settled)+felt {
			h.totals.Late++
		}
		if t.answer {
			h.settleBetween(h.answered, h.settled)
			h.answered = h.settled
		}
	}
}

func (h *History) settleBetween(before, i int) {
	if i == before+1 {
		return
	}
	there, back := h.between(before, i, h.came(before-overtaken, i+overtaken))
	h.totals.LostThere += uint64(there)
	h.totals.LostBack += uint64(back)
}

// leastBefore is the shortest round trip of the minute that ends with a packet.
func (h *History) leastBefore(i int) time.Duration {
	least := h.trips[i].rtt()
	for since := h.trips[i].sent - remember; i >= 0 && h.trips[i].sent >= since; i-- {
		if t := &h.trips[i]; t.timed() {
			least = min(least, t.rtt())
		}
	}
	return least
}

// forget drops the first packets, which are settled.
func (h *History) forget(packets int) {
	h.trips = h.trips[packets:]
	h.settled -= packets
	h.answered = max(none, h.answered-packets)
}
