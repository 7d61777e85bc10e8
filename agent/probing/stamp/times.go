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
	notSynchronous = 0x0040            // STA_UNSYNC in linux/timex.h
	maxScale       = 1<<6 - 1
)

// Estimate is the Error Estimate of RFC 4656: the error of the clock, whether it is synchronized, and the format of
// the timestamps beside it.
type Estimate uint16

// NewEstimate rounds the error up. The format cannot express an error of zero.
func NewEstimate(isSynchronized bool, wrongBy time.Duration) Estimate {
	var e Estimate
	if isSynchronized {
		e |= synchronized
	}
	multiplier, scale := math.Ceil(max(wrongBy, 1).Seconds()*(1<<32)), 0
	for multiplier > math.MaxUint8 && scale < maxScale {
		multiplier = math.Ceil(multiplier / 2)
		scale++
	}
	return e | Estimate(scale)<<8 | Estimate(max(1, min(math.MaxUint8, multiplier)))
}

// PTP reports whether timestamps have 32 bits of seconds and 32 bits of nanoseconds (IEEE 1588) instead of the NTP
// format.
func (e Estimate) PTP() bool { return e&inPTP != 0 }

// Wire encodes a time (nanoseconds since 1970) in the estimate's format.
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

// Nanoseconds decodes a time until 2106. The NTP era ends in 2036, so values before 1970 belong to the next era.
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

// ownEstimate returns the kernel's error estimate of its clock.
func ownEstimate() Estimate {
	var timex unix.Timex
	if _, err := unix.Adjtimex(&timex); err != nil {
		return NewEstimate(false, time.Second)
	}
	return NewEstimate(timex.Status&notSynchronous == 0, time.Duration(timex.Maxerror)*time.Microsecond)
}
