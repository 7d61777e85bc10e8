// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	fastest     = 1e-3    // at which two clocks go apart while both are slewed: 500 ppm each
	uncertain   = 0.25e-3 // seconds by which times are wrong beside what round trips show
	tolerable   = 1e-3    // seconds by which changes may be wrong by what is not known of the clocks' rates
	nextBest    = 8       // packets beside the best one that tell how good that is
	leastPoints = 10      // seconds with packets, before rates are compared
)

// OneWay is how delays changed in each direction, against the lowest of the last minute. The lowest itself is not known:
// the two clocks do not show the same time.
type OneWay struct {
	There, Back Change
	Over        time.Duration // since when the lowest was looked for
	Drift       float64       // of the far end's clock against ours, parts in a million, where it is removed
	Removed     bool          // the drift is known and taken out; else it is in the changes
}

// Change of one direction. Jitter is RFC 3550's difference of transit times of neighbours, without its smoothing: the mean
// over the window of its absolute value.
type Change struct{ Median, NinetyFive, Jitter time.Duration }

// leg is a packet whose times are known, in seconds: the delays have the clocks' difference in them.
type leg struct {
	number      uint32
	at          time.Duration
	there, back float64
	rtt         float64
}

// apart is how far the far end's clock seems to be ahead. It is wrong by at most half of what the round trip took longer than
// the path's shortest one: packets wait in one direction or the other.
func (l leg) apart() float64 { return (l.there - l.back) / 2 }

func (l leg) wrongBy(least float64) float64 { return (l.rtt-least)/2 + uncertain }

// step is between two packets.
type step struct {
	after, until time.Duration
	by           float64 // seconds, about
}

// telling is what can be said of some time.
type telling struct {
	legs    []leg // since the last step, without the drift where it is known
	begin   time.Duration
	steps   []step
	drift   float64
	removed bool
	low     [2]float64
}

func tell(trips []trip) telling {
	legs := legsOf(trips)
	first, steps := stepsOf(legs)
	t := telling{legs: legs[first:], steps: steps}
	if len(t.legs) == 0 {
		return t
	}
	t.begin = t.legs[0].at
	if drift, known := driftOf(t.legs); known {
		t.drift, t.removed = drift, true
	}
	t.low = [2]float64{math.Inf(1), math.Inf(1)}
	for i := range t.legs {
		l := &t.legs[i]
		by := t.drift * (l.at - t.begin).Seconds()
		l.there, l.back = l.there-by, l.back+by
		t.low[0], t.low[1] = min(t.low[0], l.there), min(t.low[1], l.back)
	}
	return t
}

func legsOf(trips []trip) []leg {
	var legs []leg
	var zero int64 // of the clocks' difference: what is left is small enough for a float
	for i := range trips {
		t := &trips[i]
		if !t.timed() {
			continue
		}
		if legs == nil {
			zero = t.received - int64(t.sent)
		}
		legs = append(legs, leg{
			number: t.number, at: t.sent, rtt: t.rtt().Seconds(),
			there: time.Duration(t.received - int64(t.sent) - zero).Seconds(),
			back:  time.Duration(int64(t.heard) - t.answered + zero).Seconds(),
		})
	}
	return legs
}

// floor is the shortest round trip that the path may have: where even the best packets waited, as those next to the best
// tell, it is shorter than theirs by doubt times what those waited longer.
func floor(legs []leg, doubt float64) float64 {
	all := make([]float64, len(legs))
	for i, l := range legs {
		all[i] = l.rtt
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[0] - doubt*(all[min(nextBest, len(all)-1)]-all[0])
}

// stepsOf finds where the clocks' difference cannot have been the same, however packets waited, and the first leg after the
// last such place. What is smaller than the waiting is not found.
func stepsOf(legs []leg) (first int, steps []step) {
	least := floor(legs, 2)
	low, high := math.Inf(-1), math.Inf(1)
	for i, l := range legs {
		if i > 0 {
			slack := fastest * (l.at - legs[i-1].at).Seconds()
			low, high = low-slack, high+slack
		}
		lowest, highest := l.apart()-l.wrongBy(least), l.apart()+l.wrongBy(least)
		if lowest > high || highest < low {
			steps = append(steps, step{after: legs[i-1].at, until: l.at, by: l.apart() - (low+high)/2})
			low, high, first = lowest, highest, i
		}
		low, high = max(low, lowest), min(high, highest)
	}
	return first, steps
}

// driftOf is the middle of what the clocks' rates can be, however packets waited; false where that is too much to be taken
// out. The best packet of each second says it, for it waited least.
func driftOf(legs []leg) (float64, bool) {
	best := bestOf(legs)
	if len(best) < leastPoints {
		return 0, false
	}
	least := floor(legs, 1)
	low, high := -fastest, fastest
	for i, later := range best {
		for _, before := range best[:i] {
			took := (later.at - before.at).Seconds()
			rate, wrongBy := later.apart()-before.apart(), later.wrongBy(least)+before.wrongBy(least)
			low, high = max(low, (rate-wrongBy)/took), min(high, (rate+wrongBy)/took)
		}
	}
	span := (best[len(best)-1].at - best[0].at).Seconds()
	return (low + high) / 2, (high-low)/2*span <= tolerable
}

// bestOf are the packets with the shortest round trip of each second.
func bestOf(legs []leg) []leg {
	var best []leg
	for i, l := range legs {
		if i == 0 || l.at/time.Second != best[len(best)-1].at/time.Second {
			best = append(best, l)
		} else if l.rtt < best[len(best)-1].rtt {
			best[len(best)-1] = l
		}
	}
	return best
}

// within is of the packets that were sent between two times; without an answer the reason.
func (t *telling) within(from, until time.Duration) (*OneWay, string) {
	for _, s := range t.steps {
		if s.until >= from && s.after < until {
			return nil, fmt.Sprintf("the far end's clock was set by about %.1f ms", s.by*1e3)
		}
	}
	first, _ := slices.BinarySearchFunc(t.legs, from, func(l leg, at time.Duration) int { return cmp.Compare(l.at, at) })
	legs := t.legs[first:]
	if len(legs) == 0 {
		return nil, "no packet was answered"
	}
	return &OneWay{
		There: changes(legs, t.low[0], func(l leg) float64 { return l.there }),
		Back:  changes(legs, t.low[1], func(l leg) float64 { return l.back }),
		Over:  until - t.begin, Drift: t.drift * 1e6, Removed: t.removed,
	}, ""
}

func changes(legs []leg, low float64, delay func(leg) float64) Change {
	all := make([]float64, len(legs))
	difference, neighbours := 0.0, 0
	for i, l := range legs {
		all[i] = delay(l) - low
		if i > 0 && legs[i-1].number+1 == l.number {
			difference += math.Abs(all[i] - all[i-1])
			neighbours++
		}
	}
	slices.Sort(all)
	jitter := difference / float64(max(1, neighbours))
	return Change{Median: seconds(quantile(all, 0.5)), NinetyFive: seconds(quantile(all, 0.95)), Jitter: seconds(jitter)}
}

func seconds(of float64) time.Duration { return time.Duration(of * float64(time.Second)) }
