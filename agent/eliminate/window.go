package eliminate

import "time"

const (
	beyond  = 1000 // of so many copies one may come later than the window is made for
	room    = 2    // times what was seen: paths grow longer, too
	history = 100  // copies; of fewer nothing is concluded
)

// Window is within how long after the first a copy is to be expected, after copies with these skews (Counters.Skew). It
// is never shorter than the floor, nor longer than the ceiling, and the ceiling as long as little is known.
func Window(skew [32]uint64, floor, ceiling time.Duration) time.Duration {
	var copies uint64
	for _, n := range skew {
		copies += n
	}
	if copies < history {
		return ceiling
	}
	longest, later := 0, uint64(0)
	for step := len(skew) - 1; step >= 0; step-- {
		if later += skew[step]; later > copies/beyond {
			longest = step
			break
		}
	}
	return min(max(room*time.Duration(1)<<(longest+1), floor), ceiling)
}
