// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"time"
)

const maxReadGap = 20 * time.Microsecond

// Instant is one moment by the monotonic clock and by the wall clock.
type Instant struct {
	At   time.Duration // by Monotonic
	Wall int64         // nanoseconds since 1970
}

// Offset is constant until the wall clock is set: both clocks are slewed alike.
func (i Instant) Offset() time.Duration { return time.Duration(i.Wall) - i.At }

// Now reads both clocks together and returns the best of several attempts.
func Now() Instant {
	var best Instant
	least := time.Duration(math.MaxInt64)
	for range 5 {
		before, wall := Monotonic(), time.Now().UnixNano()
		took := Monotonic() - before
		if took < least {
			best, least = Instant{At: before + took/2, Wall: wall}, took
		}
		if least < maxReadGap {
			break
		}
	}
	return best
}
