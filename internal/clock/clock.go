// SPDX-License-Identifier: Apache-2.0

// Package clock reads the two kernel clocks that nobody sets, so that decisions hold while the wall clock jumps.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the time since the machine was booted, without the time it was suspended for.
func Monotonic() time.Duration { return read(unix.CLOCK_MONOTONIC) }

// Boot is the time since the machine was booted, with the time it was suspended for.
func Boot() time.Duration { return read(unix.CLOCK_BOOTTIME) }

func read(clock int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		panic(fmt.Sprintf("clock %d cannot be read: %v", clock, err)) // every kernel since 2.6.39 has both
	}
	return time.Duration(now.Nano())
}
