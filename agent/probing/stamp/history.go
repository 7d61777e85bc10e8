// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"math"
	"slices"
	"sort"
	"time"
)

const (
	lostAfter = time.Second      // without an answer
	remember  = 60 * time.Second // the longest window
	overtaken = 64               // answers that the peer's counter may be ahead; a larger gap means a restarted counter
)

// lengths are the lengths of the windows.
var lengths = [...]time.Duration{time.Second, 10 * time.Second, remember}

// trip is one packet and its answer. Our times are from clock.Monotonic, the peer's are nanoseconds since 1970.
type trip struct {
	number             uint32
	sent, heard        time.Duration
	received, answered int64
	far                uint32 // sequence number of the answer
	answer             bool
	unclear            bool // times are invalid, because this host's clock was set meanwhile
}

func (t *trip) lost() bool { return !t.answer || t.heard-t.sent > lostAfter }

// timed reports whether the times are plausible. The peer's clock may have been set, or the peer may send any values.
func (t *trip) timed() bool {
	return !t.lost() && !t.unclear && t.answered >= t.received && t.rtt() >= 0
}

// rtt excludes the time that the packet spent at the peer.
func (t *trip) rtt() time.Duration {
	return t.heard - t.sent - time.Duration(t.answered-t.received)
}

// none is the index of no packet.
const none = -1

// History holds the packets of the last minute and the totals of all.
type History struct {
	stateful bool
	trips    []trip // in sending order
	totals   Totals
	settled  int           // trips that the totals include
	answered int           // the last settled trip with an answer, or none
	newest   time.Duration // sending time of the newest answered packet
}

// NewHistory returns an empty history. A stateful peer numbers its answers by itself.
func NewHistory(stateful bool) History { return History{stateful: stateful, answered: none} }

// Sent adds a packet. Numbers increase.
func (h *History) Sent(number uint32, at time.Duration) {
	h.settle(at)
	h.forget(h.until(at - remember - lostAfter - time.Second))
	h.trips = append(h.trips, trip{number: number, sent: at})
}

// Left corrects the sending time of a packet.
func (h *History) Left(number uint32, at time.Duration) {
	if t := h.find(number); t != nil {
		t.sent = at
	}
}

// Returned adds an answer: its number, when the peer received the packet and when it answered. With unclear, the times
// are invalid. It returns false if the packet is unknown, too old or already answered.
func (h *History) Returned(number, far uint32, received, answered int64, at time.Duration, unclear bool) bool {
	t := h.find(number)
	if t == nil || t.answer {
		return false
	}
	t.answer, t.far, t.received, t.answered, t.heard, t.unclear = true, far, received, answered, at, unclear
	h.newest = max(h.newest, t.sent)
	return true
}

func (h *History) find(number uint32) *trip {
	i := sort.Search(len(h.trips), func(i int) bool { return h.trips[i].number >= number })
	if i == len(h.trips) || h.trips[i].number != number {
		return nil
	}
	return &h.trips[i]
}

// Window summarizes the packets of a period that ended a second ago: by then each is answered or lost.
type Window struct {
	Length                    time.Duration
	Sent, Lost                int
	LostThere, LostBack       int           // the direction of the other lost packets is unknown
	Reordered                 int           // answers that arrived after the answer to a later packet
	Least, Median, NinetyFive time.Duration // round trips without the peer's processing time; 0 without answers
	OneWay                    *OneWay
	Why                       string // why OneWay is nil
}

// Windows returns the windows of 1 s, 10 s and 60 s.
func (h *History) Windows(now time.Duration) []Window {
	until := now - lostAfter
	settled := h.trips[:h.until(until)]
	where := h.directions(len(settled))
	oneWay := analyse(settled[h.until(until-remember):])
	windows := make([]Window, 0, len(lengths))
	for _, length := range lengths {
		first := h.until(until - length)
		w := Window{Length: length, Sent: len(settled) - first, Reordered: reordered(settled[first:])}
		for i := range settled[first:] {
			w.count(&settled[first+i], where[first+i])
		}
		w.roundTrips(settled[first:])
		w.OneWay, w.Why = oneWay.within(until-length, until)
		windows = append(windows, w)
	}
	return windows
}

// until returns the number of packets sent before a time.
func (h *History) until(at time.Duration) int {
	return sort.Search(len(h.trips), func(i int) bool { return h.trips[i].sent >= at })
}

func (w *Window) count(t *trip, where direction) {
	if !t.lost() {
		return
	}
	w.Lost++
	switch where {
	case there:
		w.LostThere++
	case back:
		w.LostBack++
	}
}

func (w *Window) roundTrips(trips []trip) {
	var all []time.Duration
	for i := range trips {
		if trips[i].timed() {
			all = append(all, trips[i].rtt())
		}
	}
	slices.Sort(all)
	if len(all) > 0 {
		w.Least, w.Median, w.NinetyFive = all[0], quantile(all, 0.5), quantile(all, 0.95)
	}
}

// quantile returns the smallest value that at least this part of the sorted values does not exceed.
func quantile[T any](sorted []T, part float64) T {
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

func reordered(trips []trip) int {
	var came []*trip
	for i := range trips {
		if trips[i].answer {
			came = append(came, &trips[i])
		}
	}
	sort.SliceStable(came, func(i, j int) bool { return came[i].heard < came[j].heard })
	late, highest := 0, -1
	for _, t := range came {
		if int(t.number) < highest {
			late++
		}
		highest = max(highest, int(t.number))
	}
	return late
}

// direction is where a packet was lost.
type direction byte

const (
	unknown direction = iota
	there
	back
)

// directions assigns a direction to each lost packet. Between two answered packets only the number of losses per
// direction is known, not which packet was lost where.
func (h *History) directions(packets int) []direction {
	where := make([]direction, packets)
	came := h.came(0, len(h.trips))
	before := none
	for i := range h.trips {
		if h.trips[i].answer {
			there, back := h.between(before, i, came)
			if there+back > 0 {
				fill(where[min(before+1, packets):min(i, packets)], there)
			}
			before = i
		}
	}
	return where
}

// came returns the set of answer numbers of some packets.
func (h *History) came(from, until int) map[uint32]bool {
	came := map[uint32]bool{}
	for _, t := range h.trips[max(from, 0):min(until, len(h.trips))] {
		if t.answer {
			came[t.far] = true
		}
	}
	return came
}

// between returns the losses per direction between two answered packets. A stateful peer numbers its answers: missing
// numbers were lost on the way back, and the other packets never reached the peer.
func (h *History) between(before, i int, came map[uint32]bool) (lostThere, lostBack int) {
	if before == none || !h.stateful || !h.follows(i, before) {
		return 0, 0
	}
	for far := h.trips[before].far + 1; far < h.trips[i].far; far++ {
		if !came[far] {
			lostBack++
		}
	}
	lost := i - before - 1
	lostBack = min(lostBack, lost)
	return lost - lostBack, lostBack
}

// follows reports whether two answers belong to the same count.
func (h *History) follows(i, before int) bool {
	gap := h.trips[i].number - h.trips[before].number
	return h.trips[i].far > h.trips[before].far && h.trips[i].far-h.trips[before].far <= gap+overtaken
}

// fill marks the first packets of a gap as lost on the way there, the rest as lost on the way back.
func fill(gap []direction, lostThere int) {
	for each := range gap {
		gap[each] = back
		if each < lostThere {
			gap[each] = there
		}
	}
}
