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
	maxDrift       = 1e-3    // between two clocks that are both slewed: 500 ppm each
	timestampError = 0.25e-3 // seconds, beside the error that round trips show
	maxDriftError  = 1e-3    // seconds of error in changes that an uncertain drift may cause
	nextBest       = 8       // packets next to the best one that show how far it can be trusted
	minPoints      = 10      // seconds with packets needed to compare clock rates
)

// OneWay is the change of delay in each direction against the lowest of the last minute. The absolute delay is
// unknown, because the two clocks differ.
type OneWay struct {
	There, Back Change
	Over        time.Duration // age of the oldest packet in the search for the lowest delay
	Drift       float64       // of the peer's clock against ours in ppm, if Removed
	Removed     bool          // whether the drift is known and subtracted; otherwise the changes include it
}

// Change is the change in one direction. Jitter is the mean absolute difference between the transit times of
// neighbours in the window (RFC 3550 without its smoothing).
type Change struct{ Median, NinetyFive, Jitter time.Duration }

// sample is a packet with known times, in seconds. The delays include the difference between the clocks.
type sample struct {
	number      uint32
	at          time.Duration
	there, back float64
	rtt         float64
}

// clockOffset estimates how far the peer's clock is ahead. Packets may wait in one direction only, so the error is at most
// half of the round trip's excess over the shortest one.
func (l sample) clockOffset() float64 { return (l.there - l.back) / 2 }

func (l sample) wrongBy(least float64) float64 { return (l.rtt-least)/2 + timestampError }

// step is a jump of the peer's clock between two packets.
type step struct {
	after, until time.Duration
	by           float64 // seconds, approximate
}

// analysis is the one-way analysis of some packets.
type analysis struct {
	samples []sample // since the last step, without the drift if it is known
	begin   time.Duration
	steps   []step
	drift   float64
	removed bool
	low     [2]float64
}

func analyse(trips []trip) analysis {
	samples := samplesOf(trips)
	first, steps := stepsOf(samples)
	t := analysis{samples: samples[first:], steps: steps}
	if len(t.samples) == 0 {
		return t
	}
	t.begin = t.samples[0].at
	if drift, known := driftOf(t.samples); known {
		t.drift, t.removed = drift, true
	}
	t.low = [2]float64{math.Inf(1), math.Inf(1)}
	for i := range t.samples {
		l := &t.samples[i]
		by := t.drift * (l.at - t.begin).Seconds()
		l.there, l.back = l.there-by, l.back+by
		t.low[0], t.low[1] = min(t.low[0], l.there), min(t.low[1], l.back)
	}
	return t
}

func samplesOf(trips []trip) []sample {
	var samples []sample
	var zero int64 // the clocks' difference; the remainder is small enough for a float
	for i := range trips {
		t := &trips[i]
		if !t.timed() {
			continue
		}
		if samples == nil {
			zero = t.received - int64(t.sent)
		}
		samples = append(samples, sample{
			number: t.number, at: t.sent, rtt: t.rtt().Seconds(),
			there: time.Duration(t.received - int64(t.sent) - zero).Seconds(),
			back:  time.Duration(int64(t.heard) - t.answered + zero).Seconds(),
		})
	}
	return samples
}

// floor returns the shortest round trip that the path may have. If the best packets differ, even they may have
// waited: floor subtracts their difference times doubt.
func floor(samples []sample, doubt float64) float64 {
	all := make([]float64, len(samples))
	for i, l := range samples {
		all[i] = l.rtt
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[0] - doubt*(all[min(nextBest, len(all)-1)]-all[0])
}

// stepsOf finds clock steps that queueing cannot explain, and the first sample after the last step. Steps smaller
// than the queueing delay are not found.
func stepsOf(samples []sample) (first int, steps []step) {
	least := floor(samples, 2)
	low, high := math.Inf(-1), math.Inf(1)
	for i, l := range samples {
		if i > 0 {
			slack := maxDrift * (l.at - samples[i-1].at).Seconds()
			low, high = low-slack, high+slack
		}
		lowest, highest := l.clockOffset()-l.wrongBy(least), l.clockOffset()+l.wrongBy(least)
		if lowest > high || highest < low {
			steps = append(steps, step{after: samples[i-1].at, until: l.at, by: l.clockOffset() - (low+high)/2})
			low, high, first = lowest, highest, i
		}
		low, high = max(low, lowest), min(high, highest)
	}
	return first, steps
}

// driftOf returns the middle of the possible drifts, or false if the range is too wide to subtract one. It uses the
// best packet of each second, because that waited least.
func driftOf(samples []sample) (float64, bool) {
	best := bestOf(samples)
	if len(best) < minPoints {
		return 0, false
	}
	least := floor(samples, 1)
	low, high := -maxDrift, maxDrift
	for i, later := range best {
		for _, before := range best[:i] {
			took := (later.at - before.at).Seconds()
			rate, wrongBy := later.clockOffset()-before.clockOffset(), later.wrongBy(least)+before.wrongBy(least)
			low, high = max(low, (rate-wrongBy)/took), min(high, (rate+wrongBy)/took)
		}
	}
	span := (best[len(best)-1].at - best[0].at).Seconds()
	return (low + high) / 2, (high-low)/2*span <= maxDriftError
}

// bestOf returns the sample with the shortest round trip of each second.
func bestOf(samples []sample) []sample {
	var best []sample
	for i, l := range samples {
		if i == 0 || l.at/time.Second != best[len(best)-1].at/time.Second {
			best = append(best, l)
		} else if l.rtt < best[len(best)-1].rtt {
			best[len(best)-1] = l
		}
	}
	return best
}

// within returns the changes of packets sent between two times, or the reason why there are none.
func (t *analysis) within(from, until time.Duration) (*OneWay, string) {
	for _, s := range t.steps {
		if s.until >= from && s.after < until {
			return nil, fmt.Sprintf("the peer's clock was set by about %.1f ms", s.by*1e3)
		}
	}
	first, _ := slices.BinarySearchFunc(t.samples, from, func(l sample, at time.Duration) int { return cmp.Compare(l.at, at) })
	samples := t.samples[first:]
	if len(samples) == 0 {
		return nil, "no packet was answered"
	}
	return &OneWay{
		There: changes(samples, t.low[0], func(l sample) float64 { return l.there }),
		Back:  changes(samples, t.low[1], func(l sample) float64 { return l.back }),
		Over:  until - t.begin, Drift: t.drift * 1e6, Removed: t.removed,
	}, ""
}

func changes(samples []sample, low float64, delay func(sample) float64) Change {
	all := make([]float64, len(samples))
	difference, neighbours := 0.0, 0
	for i, l := range samples {
		all[i] = delay(l) - low
		if i > 0 && samples[i-1].number+1 == l.number {
			difference += math.Abs(all[i] - all[i-1])
			neighbours++
		}
	}
	slices.Sort(all)
	jitter := difference / float64(max(1, neighbours))
	return Change{Median: seconds(quantile(all, 0.5)), NinetyFive: seconds(quantile(all, 0.95)), Jitter: seconds(jitter)}
}

func seconds(of float64) time.Duration { return time.Duration(of * float64(time.Second)) }
