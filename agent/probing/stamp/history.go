// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"math"
	"slices"
	"sort"
	"time"
)

const (
	lostAfter = time.Second      // unanswered
	remember  = 60 * time.Second // the longest window
	overtaken = 64               // answers by which the far end's count may be ahead of ours: more is another count
)

// lengths of windows.
var lengths = [...]time.Duration{time.Second, 10 * time.Second, remember}

// trip is one packet's way. Times of this host are by clock.Monotonic; the far end's are nanoseconds since 1970.
type trip struct {
	number             uint32
	sent, heard        time.Duration
	received, answered int64
	far                uint32 // the answer's own number
	answer             bool
	unclear            bool // it says nothing of times: this host's clock was set meanwhile
}

func (t *trip) lost() bool { return !t.answer || t.heard-t.sent > lostAfter }

// timed tells whether its times can be: those of a far end whose clock was set in between, or that says anything, are not.
func (t *trip) timed() bool {
	return !t.lost() && !t.unclear && t.answered >= t.received && t.rtt() >= 0
}

// rtt is without the time that the packet spent at the far end.
func (t *trip) rtt() time.Duration {
	return t.heard - t.sent - time.Duration(t.answered-t.received)
}

// none is where there is no packet.
const none = -1

// History is what became of the packets of the last minute, and how many there were of all.
type History struct {
	stateful bool
	trips    []trip // in the order of sending
	totals   Totals
	settled  int           // of the trips, are in the totals
	answered int           // the last of those that was; or none
	newest   time.Duration // when the newest packet was sent that is answered
}

// NewHistory is of a session whose far end counts its answers by themselves, or does not.
func NewHistory(stateful bool) History { return History{stateful: stateful, answered: none} }

// Sent tells of a packet; numbers grow.
func (h *History) Sent(number uint32, at time.Duration) {
	h.settle(at)
	h.forget(h.until(at - remember - lostAfter - time.Second))
	h.trips = append(h.trips, trip{number: number, sent: at})
}

// Left tells better when a packet was sent.
func (h *History) Left(number uint32, at time.Duration) {
	if t := h.find(number); t != nil {
		t.sent = at
	}
}

// Heard tells of an answer: its number, when the far end had the packet and when it answered. unclear: the times are of no use.
// False for a packet that was never sent, is long ago or was answered already.
func (h *History) Heard(number, far uint32, received, answered int64, at time.Duration, unclear bool) bool {
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

// Window is what became of the packets that were sent in some time until a second ago: by then each is answered or lost.
type Window struct {
	Length                    time.Duration
	Sent, Lost                int
	LostThere, LostBack       int           // of the lost: the rest of them is not known to be either
	Reordered                 int           // answers that came after one to a later packet
	Least, Median, NinetyFive time.Duration // of round trips, without the far end's own time; 0 where none was answered
	OneWay                    *OneWay
	Why                       string // there is no OneWay
}

// Windows are of 1 s, 10 s and 60 s.
func (h *History) Windows(now time.Duration) []Window {
	until := now - lostAfter
	settled := h.trips[:h.until(until)]
	where := h.directions(len(settled))
	oneWay := tell(settled[h.until(until-remember):])
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

// until is how many were sent before a time.
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

// quantile is the least of some sorted values that as large a part of them does not exceed.
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

// direction in which a packet was lost.
type direction byte

const (
	unknown direction = iota
	there
	back
)

// directions tells it of the first packets. Which of those between two that were answered were which is not known, only
// how many.
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

// came are the far end's counts of the answers to some packets.
func (h *History) came(from, until int) map[uint32]bool {
	came := map[uint32]bool{}
	for _, t := range h.trips[max(from, 0):min(until, len(h.trips))] {
		if t.answer {
			came[t.far] = true
		}
	}
	return came
}

// between tells how many of the packets between two that were answered were lost in which direction: where the far end counts
// its answers, those that are missing between the two were lost on their way back, and the other packets never reached it.
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

// follows tells whether the answers to two packets are of one count.
func (h *History) follows(i, before int) bool {
	gap := h.trips[i].number - h.trips[before].number
	return h.trips[i].far > h.trips[before].far && h.trips[i].far-h.trips[before].far <= gap+overtaken
}

// fill has the first of a gap's packets lost on their way there, the rest on their way back.
func fill(gap []direction, lostThere int) {
	for each := range gap {
		gap[each] = back
		if each < lostThere {
			gap[each] = there
		}
	}
}
