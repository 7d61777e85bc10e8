// SPDX-License-Identifier: Apache-2.0

// Package clock reads the two kernel clocks that cannot be set, so that decisions are immune to jumps of the wall
// clock.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns the time since boot, without suspend.
func Monotonic() time.Duration { return read(unix.CLOCK_MONOTONIC) }

// Boot returns the time since boot, with suspend.
func Boot() time.Duration { return read(unix.CLOCK_BOOTTIME) }

func read(clock int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		panic(fmt.Sprintf("cannot read clock %d: %v", clock, err)) // every kernel since 2.6.39 has both
	}
	return time.Duration(now.Nano())
}
