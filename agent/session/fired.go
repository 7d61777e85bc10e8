// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"bicast/api/agentv1"
)

// As many as can be armed may fire in one moment (agent/failover).
const mostUntold = 512

// Failovers that fired, and of which it is not sure that the controller knows: they belong to the session, for a stream
// that dies takes with it what it had sent and the other end had not read. A controller reads words in their order, so
// that it has taken a report tells that it knows of those that were said before.
type untold struct {
	fired   []*agentv1.Fired
	said    int // of these, on this stream
	covered int // of these, before the report that is in flight
}

// begins is for a new stream, which has said nothing.
func (u *untold) begins() { u.said, u.covered = 0, 0 }

func (u *untold) reports() { u.covered = u.said }

func (u *untold) taken() {
	u.fired = u.fired[u.covered:]
	u.said, u.covered = u.said-u.covered, 0
}

// full reports whether too many messages are unconfirmed. Later ones wait at the host.
func (u *untold) full() bool { return len(u.fired) == mostUntold }

// tellFired tells of what fired, first of what an earlier stream may not have told of; and the next report, which the
// controller's word for it has to wait for, is due at once.
func (s *stream) tellFired() error {
	untold := &s.session.untold
	for more := true; more && !untold.full(); {
		select {
		case fired := <-s.session.Host.Fired():
			untold.fired = append(untold.fired, fired)
		default:
			more = false
		}
	}
	for ; untold.said < len(untold.fired); untold.said++ {
		fired := &agentv1.FromAgent_Fired{Fired: untold.fired[untold.said]}
		if err := s.wire.Send(&agentv1.FromAgent{Word: fired}); err != nil {
			return err
		}
		s.pace.due = time.Now()
	}
	return nil
}
