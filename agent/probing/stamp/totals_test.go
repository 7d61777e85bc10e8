// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"testing"
	"time"
)

func TestTotalsNeverDecrease(t *testing.T) {
	lost := func(number int) way {
		w := still(number, 0)
		w.lostThere, w.lostBack = number%10 == 3 || number%100 == 4, number%10 == 7
		if number%50 == 25 {
			w.back += minLateness + time.Millisecond
		}
		return w
	}
	h := NewHistory(true)
	var before Totals
	far := uint32(0)
	for number := range 3000 { // five minutes; the history keeps one
		at := time.Duration(number) * defaultPause
		h.Sent(uint32(number), at)
		w := lost(number)
		if !w.lostThere {
			received := began + int64(at+w.there)
			if !w.lostBack {
				h.Returned(uint32(number), far, received, received, at+w.there+w.back, false)
			}
			far++
		}
		now := h.Totals(at)
		if now.Sent < before.Sent || now.Lost < before.Lost || now.LostThere < before.LostThere ||
			now.LostBack < before.LostBack || now.Late < before.Late {
			t.Fatalf("%+v after %+v", now, before)
		}
		before = now
	}
	expect(t, h.Totals(time.Hour), Totals{Sent: 3000, Lost: 630, LostThere: 330, LostBack: 300, Late: 60})
}

func TestTotalsCountAPacketOvertakenByFarAsLost(t *testing.T) {
	const pause = 20 * time.Millisecond
	const overtakes = uint32(overtakenBy / pause)
	h := NewHistory(true)
	answer := func(number uint32, at time.Duration) { h.Returned(number, number, began, began, at, false) }
	for number := range uint32(3) {
		h.Sent(number, time.Duration(number)*pause)
	}
	for number := uint32(3); number < 20; number++ { // the three packets before are lost
		at := time.Duration(number) * pause
		h.Sent(number, at)
		if number != 10 {
			answer(number, at+time.Millisecond)
		}
		if number == 10+overtakes { // this answer overtakes the answer to packet 10
			answer(10, at+2*time.Millisecond)
		}
		if number < 10 {
			expect(t, h.Totals(at).Sent, uint64(max(number, overtakes)-overtakes))
		}
	}
	expect(t, h.Totals(20*pause), Totals{Sent: 19 - uint64(overtakes), Lost: 3, Late: 1})
}

func TestTotalsCountAPacketAsLostAfterASecond(t *testing.T) {
	h := NewHistory(true)
	h.Sent(0, 0)
	expect(t, h.Totals(lostAfter+readWithin), Totals{})
	expect(t, h.Totals(lostAfter+readWithin+1), Totals{Sent: 1, Lost: 1})
}

func TestTotalsOfADeadPathHaveNoDirection(t *testing.T) {
	for _, dead := range []time.Duration{10 * time.Second, 2 * time.Minute} { // the second exceeds the history
		h := simulated(true, dead+20*time.Second, func(number int, at time.Duration) way {
			w := still(number, at)
			w.lostThere = at >= 10*time.Second && at < 10*time.Second+dead
			return w
		})
		lost := uint64(dead / defaultPause)
		during, after := h.Totals(0), h.Totals(time.Hour)
		expect(t, during.Lost, after.Lost)
		expect(t, after.Lost, lost)
		if known := after.LostThere; dead > remember && known != 0 || dead < remember && known != lost {
			t.Errorf("%+v of a path that was dead for %v", after, dead)
		}
	}
}

func TestTotalsIgnoreAnAnswerAfterTheLoss(t *testing.T) {
	h := NewHistory(true)
	h.Sent(0, 0)
	h.Sent(1, defaultPause)
	expect(t, h.Totals(2*time.Second), Totals{Sent: 2, Lost: 2})
	h.Returned(0, 0, began, began, 3*time.Second, false)
	h.Returned(1, 1, began, began, defaultPause+10*time.Millisecond, false) // it arrived in time but was read late
	expect(t, h.Totals(4*time.Second), Totals{Sent: 2, Lost: 2})
}

func TestLateComparesWithTheMinuteBefore(t *testing.T) {
	h := simulated(true, 3*time.Minute, func(number int, at time.Duration) way {
		w := still(number, at)
		if at >= time.Minute { // a slower route
			w.back += 2 * minLateness
		}
		return w
	})
	expect(t, h.Totals(time.Hour).Late, uint64(time.Minute/defaultPause))
	unclear := simulated(true, time.Minute, func(number int, at time.Duration) way {
		w := still(number, at)
		w.unclear = at >= time.Second
		w.back += time.Duration(number) * time.Millisecond
		return w
	})
	expect(t, unclear.Totals(time.Hour).Late, 0)
}
