// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"time"

	"bicast/agent/mptcpctl"
	"bicast/mptcp"
)

// armedFailover is one armed failover and the state of its path. The caller passes the time and the subflows.
//
// A path is dead when data waits for acknowledgement and NONE of its subflows delivered anything for the patience:
// one dead peer does not condemn the path of the others.
type armedFailover struct {
	preference mptcpctl.Preference // executed when it fires
	watched    mptcpctl.Path
	patience   patience
	until      time.Duration // lease on CLOCK_BOOTTIME, which also advances during suspend

	progress time.Duration // last delivery on CLOCK_MONOTONIC, which stops during suspend
	left     time.Duration // remaining patience at the last look
	flows    map[uint64]*flow
}

// patience is how long a path may deliver nothing. If only a few segments are lost, the sender learns it from a probe
// two round trips later. Of many in flight, some would have been acknowledged by then.
type patience struct {
	few  time.Duration
	many time.Duration
}

// manySegments in flight are more than the initial window and more than a typical burst of losses.
const manySegments = 12

// with returns the patience for a subflow, at least SRTT + 4*RTTVAR: the round trip may have grown since the
// controller armed it. This is TCP's own retransmission timeout (RFC 6298, 2.3) without the lower bound of 200 ms or
// 1 s.
func (p patience) with(s mptcp.Subflow) time.Duration {
	expected := s.SRTT + 4*s.RTTVar
	if s.UnackedSegments >= manySegments {
		return max(p.many, expected)
	}
	return max(p.few, expected)
}

// flow is the state of one subflow.
type flow struct {
	delivered uint64
	waiting   time.Duration // since when data has waited without a delivery
	seen      bool          // in the current look
}

// look processes the current subflows and returns how long the path has stalled, or 0 if it is not dead.
func (w *armedFailover) look(now time.Duration, subflows []mptcp.Subflow) time.Duration {
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
		if s.SegmentsDelivered != f.delivered { // the last acknowledgement reported this delivery
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

// discount shifts the start of every stall.
func (w *armedFailover) discount(late time.Duration) {
	w.progress += late
	for _, f := range w.flows {
		f.waiting += late
	}
}

// next returns the time until the next look: short enough to notice when a stall begins and when patience ends.
func (w *armedFailover) next() time.Duration {
	return min(max(w.patience.many/4, minInterval), max(w.left, minWait))
}
