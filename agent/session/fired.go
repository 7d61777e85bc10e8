// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"bicast/api/agentv1"
)

// mostUntold is the limit of armed failovers, which may all fire at once (agent/failover).
const mostUntold = 512

// untold has the fired failovers that the controller has not confirmed. The session keeps them, because a broken stream
// may lose sent messages. The controller reads messages in order, so a confirmed report confirms those sent before it.
type untold struct {
	fired   []*agentv1.Fired
	said    int // how many of them were sent on this stream
	covered int // how many of them were sent before the report in flight
}

// begins resets the counts for a new stream.
func (u *untold) begins() { u.said, u.covered = 0, 0 }

func (u *untold) reports() { u.covered = u.said }

func (u *untold) taken() {
	u.fired = u.fired[u.covered:]
	u.said, u.covered = u.said-u.covered, 0
}

// full reports whether too many messages are unconfirmed. Later ones wait at the host.
func (u *untold) full() bool { return len(u.fired) == mostUntold }

// tellFired sends fired failovers, unconfirmed ones of an earlier stream first. The next report becomes due at once,
// since only its confirmation confirms them.
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
