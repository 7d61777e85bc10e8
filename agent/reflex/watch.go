package reflex

import (
	"time"

	"bicast/agent/hands"
	"bicast/mptcp"
)

// Watch is one armed reflex and what it has seen. It is pure: what time it is and what the kernel shows it is told.
//
// A path is dead when data waits for acknowledgement on it and, for as long as was said, nothing was delivered on ANY of
// its subflows: one connection whose peer has died does not condemn the path of the others.
type watch struct {
	wish       hands.Wish // to be carried out when it fires
	watched    hands.Path
	noProgress time.Duration
	until      time.Duration // of CLOCK_BOOTTIME, which a suspended machine's lease runs out by

	progress time.Duration // when the path last delivered, of CLOCK_MONOTONIC: asleep nobody expects any
	flows    map[uint64]*flow
}

// What was seen of one subflow.
type flow struct {
	delivered uint64
	waiting   time.Duration // since when data has waited with nothing delivered
	seen      bool          // at this look
}

// look takes in what the kernel shows now, and tells how long the path has stalled: 0 while it has not.
func (w *watch) look(now time.Duration, subflows []mptcp.Subflow) time.Duration {
	var longest time.Duration
	for _, f := range w.flows {
		f.seen = false
	}
	for _, s := range subflows {
		f := w.flows[s.Cookie]
		if f == nil {
			f = &flow{delivered: s.SegmentsDelivered, waiting: now}
			w.flows[s.Cookie] = f
		}
		f.seen = true
		if s.SegmentsDelivered != f.delivered {
			f.delivered, f.waiting = s.SegmentsDelivered, now
			w.progress = now
		}
		if s.UnackedSegments == 0 {
			f.waiting = now
		}
		longest = max(longest, now-f.waiting)
	}
	for cookie, f := range w.flows {
		if !f.seen {
			delete(w.flows, cookie)
		}
	}
	stalled := min(longest, now-w.progress)
	if stalled < w.noProgress {
		return 0
	}
	return stalled
}

// every is how often to look: a quarter of what may pass, so that a stall is seen soon after it is one.
func (w *watch) every() time.Duration { return max(w.noProgress/4, shortestLook) }
