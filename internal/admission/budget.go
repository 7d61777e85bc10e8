// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Budget is what may go out: so much at once, and then so much a second.
type Budget struct {
	atOnce, aSecond float64
	left            float64
	filled          time.Duration
}

// Full has all that may go at once.
func Full(atOnce, aSecond float64) Budget {
	return Budget{atOnce: atOnce, aSecond: aSecond, left: atOnce}
}

// Take is false where there is nothing left for one more.
func (b *Budget) Take(now time.Duration) bool { return b.Spend(now, 1) }

// Spend is Take of what counts as so many.
func (b *Budget) Spend(now time.Duration, many float64) bool {
	b.left = min(b.atOnce, b.left+(now-b.filled).Seconds()*b.aSecond)
	b.filled = now
	if b.left < many {
		return false
	}
	b.left -= many
	return true
}
