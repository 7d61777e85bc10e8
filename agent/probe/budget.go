package probe

import "time"

// budget is what may go out: so much at once, and then so much a second.
type budget struct {
	atOnce, aSecond float64
	left            float64
	filled          time.Duration
}

func full(atOnce, aSecond float64) budget {
	return budget{atOnce: atOnce, aSecond: aSecond, left: atOnce}
}

func (b *budget) take(now time.Duration) bool {
	b.left = min(b.atOnce, b.left+(now-b.filled).Seconds()*b.aSecond)
	b.filled = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
