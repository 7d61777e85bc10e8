// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"time"

	"bicast/agent/mptcpctl"
	"bicast/mptcp"
)

// Watch is one armed reflex and what it has seen. It is pure: what time it is and what the kernel shows it is told.
//
// A path is dead when data waits for acknowledgement on it and, for as long as was said, nothing was delivered on ANY of
// its subflows: one connection whose peer has died does not condemn the path of the others.
type watch struct {
	preference mptcpctl.Preference // to be carried out when it fires
	watched    mptcpctl.Path
	patience   patience
	until      time.Duration // of CLOCK_BOOTTIME, which a suspended machine's lease runs out by

	progress time.Duration // when the path last delivered, of CLOCK_MONOTONIC: asleep nobody expects any
	left     time.Duration // of patience, when it was last looked at
	flows    map[uint64]*flow
}

// How long a path may deliver nothing. Of one or two segments that were lost nothing tells but a probe that goes out two
// round trips later; of many in flight some would have been acknowledged by then.
type patience struct {
	few  time.Duration
	many time.Duration
}

// manySegments in flight are more than a sender begins with, and than a burst of losses takes.
const manySegments = 12

// with is the patience for one subflow as it is now: whoever armed it knew round trips of some time ago. Sooner than TCP
// itself would be surprised (RFC 6298, 2.3, without the floor of 200 ms or 1 s) nobody is.
func (p patience) with(s mptcp.Subflow) time.Duration {
	expected := s.SRTT + 4*s.RTTVar
	if s.UnackedSegments >= manySegments {
		return max(p.many, expected)
	}
	return max(p.few, expected)
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
	allowed := w.patience.few
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
		if s.SegmentsDelivered != f.delivered { // the last acknowledgement was no earlier than what it delivered
			f.delivered, f.waiting = s.SegmentsDelivered, max(f.waiting, now-s.SinceAck)
			w.progress = max(w.progress, f.waiting)
		}
		if s.UnackedSegments == 0 {
			f.waiting = now
		}
		if waited := now - f.waiting; waited >= longest {
			longest, allowed = waited, w.patience.with(s)
		}
	}
	for cookie, f := range w.flows {
		if !f.seen {
			delete(w.flows, cookie)
		}
	}
	stalled := min(longest, now-w.progress)
	w.left = allowed - stalled
	if w.left > 0 {
		return 0
	}
	return stalled
}

// forgive begins every stall later by so much.
func (w *watch) forgive(late time.Duration) {
	w.progress += late
	for _, f := range w.flows {
		f.waiting += late
	}
}

// next is how soon to look again: often enough to see when a stall begins, and then when patience ends.
func (w *watch) next() time.Duration {
	return min(max(w.patience.many/4, shortestLook), max(w.left, shortestWait))
}
