// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"math/rand/v2"
	"testing"
	"time"
)

const began = 1_795_337_049_000_000_000 // the peer's clock in nanoseconds since 1970, at 0 of ours

// way is what happens to a packet sent at a given time.
type way struct {
	there, back         time.Duration
	lostThere, lostBack bool
	set                 time.Duration // by how much the peer's clock was set since the start
	unclear             bool
}

// simulated sends ten packets a second until a time and returns their history.
func simulated(stateful bool, until time.Duration, of func(number int, at time.Duration) way) *History {
	h := NewHistory(stateful)
	far := uint32(0)
	for number := range int(until / defaultPause) {
		at := time.Duration(number) * defaultPause
		w := of(number, at)
		h.Sent(uint32(number), at)
		if w.lostThere {
			continue
		}
		received := began + int64(at+w.there+w.set)
		if !w.lostBack {
			count := uint32(number)
			if stateful {
				count = far
			}
			h.Returned(uint32(number), count, received, received+int64(time.Millisecond), at+w.there+time.Millisecond+w.back, w.unclear)
		}
		far++
	}
	return &h
}

func still(int, time.Duration) way {
	return way{there: 10 * time.Millisecond, back: 20 * time.Millisecond}
}

// waiting is a path with queues where most packets wait a little.
func waiting(random *rand.Rand) way {
	wait := func() time.Duration { return time.Duration(random.ExpFloat64() * float64(3*time.Millisecond)) }
	return way{there: 10*time.Millisecond + wait(), back: 20*time.Millisecond + wait()}
}

func closeTo(t *testing.T, what string, got, expected, by time.Duration) {
	t.Helper()
	if (got - expected).Abs() > by {
		t.Errorf("%s: %v, expected %v within %v", what, got, expected, by)
	}
}

func TestWindowsEndASecondAgo(t *testing.T) {
	h := simulated(true, 70*time.Second, still)
	for i, sent := range []int{10, 100, 600} {
		w := h.Windows(70 * time.Second)[i]
		expect(t, w.Sent, sent)
		expect(t, w.Lost+w.Reordered, 0)
		closeTo(t, "round trip", w.Median, 30*time.Millisecond, time.Microsecond)
		closeTo(t, "least round trip", w.Least, 30*time.Millisecond, time.Microsecond)
		if w.OneWay == nil {
			t.Fatalf("no delays of one way: %s", w.Why)
		}
		closeTo(t, "change", w.OneWay.There.NinetyFive+w.OneWay.Back.NinetyFive, 0, 50*time.Microsecond)
		closeTo(t, "jitter", w.OneWay.There.Jitter+w.OneWay.Back.Jitter, 0, 5*time.Microsecond)
	}
}

func TestWindowsAreEmptyWithoutPackets(t *testing.T) {
	h := NewHistory(true)
	for _, w := range h.Windows(time.Second) {
		if w.Sent != 0 || w.OneWay != nil || w.Why == "" {
			t.Fatalf("%+v", w)
		}
	}
}

func TestPacketIsLostAfterASecond(t *testing.T) {
	h := NewHistory(false)
	h.Sent(0, 0)
	expect(t, h.Windows(999 * time.Millisecond)[0].Sent, 0)
	expect(t, h.Windows(1001 * time.Millisecond)[0].Lost, 1)
	h.Returned(0, 0, 1, 2, 1200*time.Millisecond, false)
	w := h.Windows(1300 * time.Millisecond)[0]
	expect(t, [2]int{w.Sent, w.Lost}, [2]int{1, 1})
	h.Sent(1, 1300*time.Millisecond)
	h.Returned(1, 1, 1, 2, 2299*time.Millisecond, false)
	expect(t, h.Windows(2400 * time.Millisecond)[1].Lost, 1)
}

func TestDirectionOfLossIsKnownWhenThePeerCounts(t *testing.T) {
	lossy := func(number int, _ time.Duration) way {
		w := still(0, 0)
		w.lostThere = number%10 == 3 || number%50 == 7
		w.lostBack = number%20 == 4 || number%50 == 8 // also in the same gap as the others
		return w
	}
	there, back := 0, 0
	for number := 90; number < 690; number++ {
		if w := lossy(number, 0); w.lostThere {
			there++
		} else if w.lostBack {
			back++
		}
	}
	w := simulated(true, 70*time.Second, lossy).Windows(70 * time.Second)[2]
	expect(t, [3]int{w.Lost, w.LostThere, w.LostBack}, [3]int{there + back, there, back})
	w = simulated(false, 70*time.Second, lossy).Windows(70 * time.Second)[2]
	expect(t, [3]int{w.Lost, w.LostThere, w.LostBack}, [3]int{there + back, 0, 0})
}

func TestDirectionOfLossIsUnknownWhenThePeerStops(t *testing.T) {
	h := simulated(true, 70*time.Second, func(number int, at time.Duration) way {
		w := still(0, 0)
		w.lostThere = at >= 60*time.Second
		return w
	})
	w := h.Windows(70 * time.Second)
	expect(t, [3]int{w[0].Lost, w[0].LostThere, w[0].LostBack}, [3]int{10, 0, 0})
	expect(t, w[2].Lost, 90)
	if w[0].OneWay != nil || w[0].Median != 0 || w[2].OneWay == nil {
		t.Fatalf("%+v", w)
	}
}

func TestDirectionOfLossIsUnknownWhenThePeerRestarts(t *testing.T) {
	h := NewHistory(true)
	for i, far := range []uint32{1 << 31, 1<<31 + 1, 0, 1<<32 - 1, 0} {
		for number := range uint32(2) { // the second of each two is lost
			number += 2 * uint32(i)
			h.Sent(number, time.Duration(number)*defaultPause)
			if number%2 == 0 {
				h.Returned(number, far, began, began, time.Duration(number)*defaultPause+1, false)
			}
		}
	}
	if w := h.Windows(3 * time.Second)[1]; w.Lost != 5 || w.LostBack != 0 || w.LostThere != 1 {
		t.Fatalf("%+v", w)
	}
}

func TestHeardAcceptsOneAnswerForEachPacket(t *testing.T) {
	h := NewHistory(true)
	h.Sent(0, 0)
	expect(t, h.Returned(0, 0, 1, 2, 3, false), true)
	expect(t, h.Returned(0, 0, 1, 2, 4, false), false)
	expect(t, h.Returned(1, 1, 1, 2, 4, false), false)
}

func TestReorderedCountsOvertakenAnswers(t *testing.T) {
	h := simulated(true, 12*time.Second, func(number int, _ time.Duration) way {
		w := still(0, 0)
		if number%10 == 5 {
			w.there += 250 * time.Millisecond // two later packets overtake it
		}
		return w
	})
	w := h.Windows(12 * time.Second)
	expect(t, [2]int{w[0].Reordered, w[1].Reordered}, [2]int{1, 10})
	expect(t, w[1].Lost, 0)
}

func TestOneWayRemovesClockDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const drift = 80e-6
	h := simulated(true, 70*time.Second, func(_ int, at time.Duration) way {
		w := waiting(random)
		w.set = time.Duration(drift * float64(at))
		return w
	})
	w := h.Windows(70 * time.Second)[2]
	if w.OneWay == nil || !w.OneWay.Removed || w.OneWay.Drift < 60 || w.OneWay.Drift > 100 {
		t.Fatalf("%+v (%s)", w.OneWay, w.Why)
	}
	for _, c := range []Change{w.OneWay.There, w.OneWay.Back} {
		closeTo(t, "median change", c.Median, 2080*time.Microsecond, 1200*time.Microsecond) // 3 ms ln 2
		closeTo(t, "jitter", c.Jitter, 3*time.Millisecond, 700*time.Microsecond)
	}
}

func TestOneWayShowsAGrowingQueueInItsDirection(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	h := simulated(true, 70*time.Second, func(_ int, at time.Duration) way {
		w := waiting(random)
		if at > 65*time.Second {
			w.there += 80 * time.Millisecond
		}
		return w
	})
	w := h.Windows(70 * time.Second)[0]
	closeTo(t, "change there", w.OneWay.There.Median, 82*time.Millisecond, 6*time.Millisecond)
	closeTo(t, "change back", w.OneWay.Back.Median, 2*time.Millisecond, 5*time.Millisecond)
}

func TestJitterComparesNeighboursOnly(t *testing.T) {
	h := simulated(true, 12*time.Second, func(number int, _ time.Duration) way {
		w := still(0, 0)
		if w.lostThere = number%20 == 0; number%40 > 20 { // the delay changes at lost packets only
			w.there += 40 * time.Millisecond
		}
		return w
	})
	closeTo(t, "jitter", h.Windows(12 * time.Second)[1].OneWay.There.Jitter, 0, 100*time.Microsecond)
}

func TestOneWayIsMissingWhenThePeersClockWasSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -30 * time.Millisecond, 8 * time.Millisecond, -8 * time.Millisecond} {
		random := rand.New(rand.NewPCG(5, 6))
		h := simulated(true, 90*time.Second, func(_ int, at time.Duration) way {
			w := waiting(random)
			if at >= 60*time.Second {
				w.set = by
			}
			return w
		})
		soon := h.Windows(62 * time.Second)
		if soon[0].OneWay != nil || soon[2].OneWay != nil || soon[0].Why == "" {
			t.Fatalf("set by %v: %+v", by, soon)
		}
		closeTo(t, "round trip", soon[0].Median, 33*time.Millisecond, 4*time.Millisecond)
		later := h.Windows(75 * time.Second)
		if later[1].OneWay == nil || later[2].OneWay != nil {
			t.Fatalf("set by %v: %+v", by, later)
		}
		if c := later[1].OneWay; c.There.NinetyFive > 30*time.Millisecond || c.Back.NinetyFive > 30*time.Millisecond {
			t.Fatalf("set by %v: %+v", by, c)
		}
	}
}

// Route changes and bursts in queues must not be mistaken for a clock step.
func TestOneWayMistakesNoPathForAClockStep(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 7))
		route, drift := time.Duration(0), (random.Float64()-0.5)*400e-6
		h := simulated(true, 70*time.Second, func(_ int, at time.Duration) way {
			w := waiting(random)
			if random.IntN(100) == 0 {
				route = time.Duration(random.IntN(60)) * time.Millisecond
			}
			w.there += route
			if random.IntN(20) == 0 {
				w.back += time.Duration(random.IntN(300)) * time.Millisecond
			}
			w.lostBack = random.IntN(10) == 0
			w.set = time.Duration(drift * float64(at))
			return w
		})
		if w := h.Windows(70 * time.Second)[2]; w.OneWay == nil {
			t.Fatalf("seed %d: %s", seed, w.Why)
		}
	}
}

func TestPacketsWithUnclearTimesStillCount(t *testing.T) {
	h := simulated(true, 12*time.Second, func(number int, _ time.Duration) way {
		w := still(0, 0)
		if w.unclear = number == 50; w.unclear {
			w.back += 500 * time.Millisecond
		}
		return w
	})
	w := h.Windows(12 * time.Second)[1]
	expect(t, w.Lost, 0)
	closeTo(t, "round trips", w.NinetyFive, 30*time.Millisecond, time.Microsecond)
	if w.OneWay == nil {
		t.Fatal(w.Why)
	}
}

func TestHistoryAcceptsAnyTimesOfThePeer(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	h := NewHistory(true)
	for number := range uint32(700) {
		at := time.Duration(number) * defaultPause
		h.Sent(number, at)
		h.Returned(number, random.Uint32(), int64(random.Uint64()), int64(random.Uint64()), at+time.Duration(random.Uint64()), false)
	}
	for _, w := range h.Windows(70 * time.Second) {
		if w.Least < 0 || w.Lost < w.LostThere+w.LostBack {
			t.Fatalf("%+v", w)
		}
	}
}

func TestHistoryKeepsOneMinute(t *testing.T) {
	h := simulated(true, 10*time.Minute, still)
	if kept := len(h.trips); kept > 640 {
		t.Fatalf("%d packets are kept", kept)
	}
}

func TestHistoryAcceptsTimeThatGoesBack(t *testing.T) {
	h := simulated(true, 20*time.Second, still)
	for _, at := range []time.Duration{-time.Hour, 0, 5 * time.Second, 1 << 62} {
		h.Windows(at)
	}
	expect(t, h.Windows(20 * time.Second)[1].Sent, 100)
}
