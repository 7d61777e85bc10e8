// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Budget is a token bucket: a burst of atOnce, refilled at aSecond per second.
type Budget struct {
	atOnce, aSecond float64
	left            float64
	filled          time.Duration
}

// Full returns a full budget.
func Full(atOnce, aSecond float64) Budget {
	return Budget{atOnce: atOnce, aSecond: aSecond, left: atOnce}
}

// Take spends one token, or returns false if there is none.
func (b *Budget) Take(now time.Duration) bool { return b.Spend(now, 1) }

// Spend spends several tokens, or returns false if there are not enough.
func (b *Budget) Spend(now time.Duration, many float64) bool {
	b.left = min(b.atOnce, b.left+(now-b.filled).Seconds()*b.aSecond)
	b.filled = now
	if b.left < many {
		return false
	}
	b.left -= many
	return true
}
