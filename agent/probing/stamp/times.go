// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

const (
	from1900To1970 = 2208988800 // seconds
	second         = int64(time.Second)
	synchronized   = Estimate(1 << 15)
	inPTP          = Estimate(1 << 14) // RFC 8186
	notSynchronous = 0x0040            // STA_UNSYNC, linux/timex.h
	mostScale      = 1<<6 - 1
)

// Estimate is RFC 4656's Error Estimate: how wrong the clock may be, whether it is synchronized, and the format of the
// times beside it.
type Estimate uint16

// NewEstimate has an error, rounded up. Zero cannot be said.
func NewEstimate(isSynchronized bool, wrongBy time.Duration) Estimate {
	var e Estimate
	if isSynchronized {
		e |= synchronized
	}
	multiplier, scale := math.Ceil(max(wrongBy, 1).Seconds()*(1<<32)), 0
	for multiplier > math.MaxUint8 && scale < mostScale {
		multiplier = math.Ceil(multiplier / 2)
		scale++
	}
	return e | Estimate(scale)<<8 | Estimate(max(1, min(math.MaxUint8, multiplier)))
}

// PTP tells whether the times are IEEE 1588's 32 bits of seconds and 32 of nanoseconds, else they are NTP's.
func (e Estimate) PTP() bool { return e&inPTP != 0 }

// Wire writes a time, nanoseconds since 1970, in the estimate's format.
func (e Estimate) Wire(at int64) uint64 {
	seconds, rest := at/second, at%second
	if rest < 0 {
		seconds, rest = seconds-1, rest+second
	}
	if e.PTP() {
		return uint64(uint32(seconds))<<32 | uint64(rest)
	}
	return uint64(uint32(seconds+from1900To1970))<<32 | (uint64(rest)<<32+uint64(second)-1)/uint64(second)
}

// Nanoseconds reads a time, until 2106. NTP's seconds begin again in 2036: what would be before 1970 is after that.
func (e Estimate) Nanoseconds(wire uint64) int64 {
	seconds, rest := int64(wire>>32), wire&math.MaxUint32
	if e.PTP() {
		return seconds*second + int64(rest)
	}
	if seconds < from1900To1970 {
		seconds += 1 << 32
	}
	return (seconds-from1900To1970)*second + int64(rest*uint64(second)>>32)
}

// ownEstimate is what the kernel says of its clock.
func ownEstimate() Estimate {
	var said unix.Timex
	if _, err := unix.Adjtimex(&said); err != nil {
		return NewEstimate(false, time.Second)
	}
	return NewEstimate(said.Status&notSynchronous == 0, time.Duration(said.Maxerror)*time.Microsecond)
}
