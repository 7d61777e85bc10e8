// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/agent/probing/bandwidth"
	"bicast/internal/clock"
)

const day = 1_795_000_000_000_000_000

func TestProbedMessageHasAllSamples(t *testing.T) {
	result := bandwidth.Result{Six: true, Hardware: true, FarHardware: true, Samples: []bandwidth.Sample{
		{Length: 64, Came: true, Sent: day + 5, Received: 900, Answered: 950, Returned: day + 70},
		{Length: 80, Sent: day},
		{Train: 1, Length: 80, Came: true, Received: 890, Returned: day + 60},
	}}
	m := probedMessage(result, errors.New("the far end went away"), 0)
	if m.Reason != "the far end went away" || m.Transport != "udp6" || !m.Hardware || m.SenderOriginNs != day || m.ReceiverOriginNs != 890 {
		t.Fatalf("%v", m)
	}
	for name, each := range map[string][2][]uint64{
		"sent": {m.SentNs, {6, 1, 0}}, "received": {m.ReceivedNs, {11, 0, 1}}, "answered": {m.AnsweredNs, {61, 0, 0}},
		"heard": {m.ReturnedNs, {71, 0, 61}},
	} {
		if !slices.Equal(each[0], each[1]) {
			t.Errorf("%s: %v, expected %v", name, each[0], each[1])
		}
	}
	if !slices.Equal(m.Trains, []uint32{0, 0, 1}) || !slices.Equal(m.Lengths, []uint32{64, 80, 80}) {
		t.Errorf("%v", m)
	}
	result = bandwidth.Result{Down: true, Hardware: true, LeftOut: 2, Samples: []bandwidth.Sample{{Length: 64, Came: true, Sent: 900, Received: day}}}
	m = probedMessage(result, nil, 0)
	if m.SentNs[0] != 1 || m.ReceivedNs[0] != 1 || len(m.AnsweredNs) != 1 || len(m.ReturnedNs) != 1 || m.AnsweredNs[0]+m.ReturnedNs[0] != 0 ||
		m.SenderOriginNs != 900 || m.ReceiverOriginNs != day || m.Hardware || !strings.Contains(m.Reason, "2 trains left out") {
		t.Errorf("%v", m)
	}
	if m := probedMessage(bandwidth.Result{}, errors.New("nobody answers"), 0); m.Reason != "nobody answers" || len(m.Lengths) != 0 {
		t.Errorf("%v", m)
	}
}

func TestProbedMessageIsVoidWhenOurClockWasSet(t *testing.T) {
	before := clock.Instant{At: time.Hour, Wall: day}
	for _, each := range []struct {
		set  time.Duration
		told bool
	}{{0, true}, {time.Millisecond, true}, {-time.Millisecond, true}, {30 * time.Millisecond, false}, {-time.Hour, false}} {
		after := clock.Instant{At: before.At + 9*time.Second, Wall: before.Wall + int64(9*time.Second+each.set)}
		result := bandwidth.Result{Samples: make([]bandwidth.Sample, 3)}
		m := probedMessage(result, nil, clockStep(before, after))
		if each.told != (m.Reason == "") || each.told != (len(m.Lengths) == 3) || !each.told && !strings.Contains(m.Reason, each.set.String()) {
			t.Errorf("set by %v: %v", each.set, m)
		}
		result.Hardware = true
		if m := probedMessage(result, nil, clockStep(before, after)); m.Reason != "" || len(m.Lengths) != 3 {
			t.Errorf("set by %v, and a card that has a clock of its own: %v", each.set, m)
		}
	}
}

func TestProbedMessageIsVoidWhenThePeersClockWasSet(t *testing.T) {
	for _, set := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		result := bandwidth.Result{Took: 9 * time.Second, Samples: []bandwidth.Sample{
			{Length: 64, Came: true, Sent: day, Received: day, Returned: day + 1},
			{Length: 64, Came: true, Sent: day + int64(9*time.Second), Received: day + int64(9*time.Second+set)},
		}}
		if m := probedMessage(result, nil, 0); len(m.Lengths) != 0 || !strings.Contains(m.Reason, "its timestamps span") {
			t.Errorf("set by %v: %v", set, m)
		}
	}
}

func TestSpanBoundsAnyTimestampsOfThePeer(t *testing.T) {
	said := []int64{math.MinInt64, math.MinInt64 + 1, -day, -1, 1, day, math.MaxInt64}
	for _, first := range said {
		for _, second := range said {
			result := bandwidth.Result{Took: 9 * time.Second, Samples: []bandwidth.Sample{
				{Length: 64, Came: true, Sent: day, Received: first, Answered: second, Returned: day + 1},
			}}
			for _, at := range slices.Concat(probedMessage(result, nil, 0).ReceivedNs, probedMessage(result, nil, 0).AnsweredNs) {
				if at > uint64(2*time.Minute) {
					t.Errorf("of %d and %d it tells %d", first, second, at)
				}
			}
		}
	}
}

func TestMicrosRoundsUpToAtLeastOne(t *testing.T) {
	for d, expected := range map[time.Duration]uint32{0: 0, 1: 1, time.Microsecond: 1, 1001: 2, -5 * time.Second: 0, 2 * time.Hour: 1<<32 - 1} {
		if got := micros(d); got != expected {
			t.Errorf("%v is %d, expected %d", d, got, expected)
		}
	}
}
