// SPDX-License-Identifier: Apache-2.0

package stamp

import "time"

const (
	minLateness = 34 * time.Millisecond  // people notice longer delays when they react to what they see or hear
	readWithin  = 250 * time.Millisecond // after arrival: counts are final, and this process may stall
	overtakenBy = 100 * time.Millisecond // a packet is lost if one sent this much later is answered first
)

// Totals counts the packets that are answered or lost. Totals never decrease.
type Totals struct {
	Sent, Lost          uint64
	LostThere, LostBack uint64 // the direction of the other lost packets is unknown
	Late                uint64 // answered, but minLateness slower than the fastest of the minute before
}

// Totals returns the counts since the first packet.
func (h *History) Totals(now time.Duration) Totals {
	h.settle(now)
	return h.totals
}

// settle counts each packet once. Answers are read in order of arrival, so an overtaken packet was not read late.
func (h *History) settle(now time.Duration) {
	for until := h.until(max(now-lostAfter-readWithin, h.newest-overtakenBy)); h.settled < until; h.settled++ {
		t := &h.trips[h.settled]
		h.totals.Sent++
		if t.lost() {
			h.totals.Lost++
		}
		if t.timed() && t.rtt() > h.leastBefore(h.settled)+minLateness {
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

// leastBefore returns the shortest round trip of the minute that ends with a packet.
func (h *History) leastBefore(i int) time.Duration {
	least := h.trips[i].rtt()
	for since := h.trips[i].sent - remember; i >= 0 && h.trips[i].sent >= since; i-- {
		if t := &h.trips[i]; t.timed() {
			least = min(least, t.rtt())
		}
	}
	return least
}

// forget drops the first packets, which settle has counted.
func (h *History) forget(packets int) {
	h.trips = h.trips[packets:]
	h.settled -= packets
	h.answered = max(none, h.answered-packets)
}
