// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBudgetBoundsBurstAndRate(t *testing.T) {
	const atOnce, aSecond = 20, 50
	random := rand.New(rand.NewPCG(1, 2))
	b := Full(atOnce, aSecond)
	var taken []time.Duration
	for now := time.Hour; now < time.Hour+time.Minute; now += time.Duration(random.IntN(int(20 * time.Millisecond))) {
		if now%(10*time.Second) < 2*time.Second {
			continue // a pause fills the bucket, up to the burst
		}
		many := 1 + random.IntN(3)
		if b.Spend(now, float64(many)) {
			taken = append(taken, slices.Repeat([]time.Duration{now}, many)...)
		}
	}
	for from := range taken { // no interval may exceed the limit, and the whole minute must nearly reach it
		for to := from; to < len(taken); to++ {
			most := atOnce + aSecond*(taken[to]-taken[from]).Seconds()
			if count := to - from + 1; float64(count) > most+1e-6 {
				t.Fatalf("%d within %v, expected %.1f at most", count, taken[to]-taken[from], most)
			}
		}
	}
	if least := 45 * aSecond; len(taken) < least {
		t.Fatalf("%d of a minute were let go, expected %d at least", len(taken), least)
	}
}

func TestBudgetRefillsWithTime(t *testing.T) {
	b := Full(3, 10)
	at := func(now time.Duration) (taken int) {
		for b.Take(now) {
			taken++
		}
		return taken
	}
	for _, each := range []struct {
		now      time.Duration
		expected int
	}{{0, 3}, {99 * time.Millisecond, 0}, {101 * time.Millisecond, 1}, {350 * time.Millisecond, 2}, {time.Hour, 3}, {time.Hour, 0}} {
		if taken := at(each.now); taken != each.expected {
			t.Fatalf("%d at %v, expected %d", taken, each.now, each.expected)
		}
	}
}
