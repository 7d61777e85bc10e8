package tunnel

import "time"

const mostASecond = 64 // and at once

// budget is how many may still be sent; it is filled again as time passes.
type budget struct {
	left   float64
	filled time.Duration
}

func full() budget { return budget{left: mostASecond} }

func (b *budget) take(now time.Duration) bool {
	b.left = min(mostASecond, b.left+(now-b.filled).Seconds()*mostASecond)
	b.filled = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
