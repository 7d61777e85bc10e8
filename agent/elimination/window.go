// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"time"

	"bicast/api/agentv1"
)

const (
	beyond   = 1000 // one copy in this many may be later than the measured delay
	room     = 2    // the window is this multiple of the measured delay, since delays grow
	enough   = 100  // copies: fewer do not set the window
	remember = 60   // seconds: older copies do not count
)

type skews [32]uint64

// sizing sets the window to the recent delay between copies. The window stays between the floor and the ceiling, and
// equals the ceiling until enough copies are measured. Copies later than the ceiling do not count: no allowed window
// would have recognized them.
type sizing struct {
	floor, ceiling time.Duration
	now            time.Duration
	readings       []skews // one for each second
}

func newSizing(order *agentv1.Eliminate) sizing {
	floor, ceiling := bounds(order)
	return sizing{floor: floor, ceiling: ceiling, now: ceiling, readings: []skews{{}}}
}

func bounds(order *agentv1.Eliminate) (floor, ceiling time.Duration) {
	floor = time.Duration(order.GetWindowFloorMs()) * time.Millisecond
	return floor, time.Duration(order.GetWindowCeilingMs()) * time.Millisecond
}

func (s *sizing) update(counters [MaxPaths]Counters) {
	var all skews
	for _, path := range counters {
		for step, copies := range path.Skew {
			all[step] += copies
		}
	}
	s.readings = append(s.readings, all)
	if len(s.readings) > remember {
		s.readings = s.readings[1:]
	}
	for step, copies := range s.readings[0] {
		all[step] -= copies
	}
	s.now = s.window(all)
}

func (s *sizing) window(of skews) time.Duration {
	var copies uint64
	for step, n := range of {
		if time.Duration(1)<<step >= s.ceiling {
			of[step] = 0
			continue
		}
		copies += n
	}
	if copies < enough {
		return s.ceiling
	}
	last, later := 0, uint64(0)
	for step := len(of) - 1; step >= 0; step-- {
		if later += of[step]; later > copies/beyond {
			last = step
			break
		}
	}
	return min(max(room*time.Duration(1)<<(last+1), s.floor), s.ceiling)
}
