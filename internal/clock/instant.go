// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"time"
)

const atOnce = 20 * time.Microsecond

// Instant is one moment by the clock that nobody sets and by the one that others are told.
type Instant struct {
	At   time.Duration // by Monotonic
	Wall int64         // nanoseconds since 1970
}

// Offset stays the same until the wall clock is set: both are slewed alike.
func (i Instant) Offset() time.Duration { return time.Duration(i.Wall) - i.At }

// Now reads both clocks with nothing between; after some tries as good as it can be had.
func Now() Instant {
	var best Instant
	least := time.Duration(math.MaxInt64)
	for range 5 {
		before, wall := Monotonic(), time.Now().UnixNano()
		took := Monotonic() - before
		if took < least {
			best, least = Instant{At: before + took/2, Wall: wall}, took
		}
		if least < atOnce {
			break
		}
	}
	return best
}
