// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"bicast/api/agentv1"
)

// maxUnconfirmed is the limit of armed failovers, which may all fire at once (agent/failover).
const maxUnconfirmed = 512

// unconfirmed has the fired failovers that the controller has not confirmed. The session keeps them, because a broken stream
// may lose sent messages. The controller reads messages in order, so a confirmed report confirms those sent before it.
type unconfirmed struct {
	fired   []*agentv1.Fired
	said    int // how many of them were sent on this stream
	covered int // how many of them were sent before the report in flight
}

// begins resets the counts for a new stream.
func (u *unconfirmed) begins() { u.said, u.covered = 0, 0 }

func (u *unconfirmed) reports() { u.covered = u.said }

func (u *unconfirmed) taken() {
	u.fired = u.fired[u.covered:]
	u.said, u.covered = u.said-u.covered, 0
}

// full reports whether too many messages are unconfirmed. Later ones wait at the host.
func (u *unconfirmed) full() bool { return len(u.fired) == maxUnconfirmed }

// tellFired sends fired failovers, unconfirmed ones of an earlier stream first. The next report becomes due at once,
// since only its confirmation confirms them.
func (s *stream) tellFired() error {
	unconfirmed := &s.session.unconfirmed
	for more := true; more && !unconfirmed.full(); {
		select {
		case fired := <-s.session.Host.Fired():
			unconfirmed.fired = append(unconfirmed.fired, fired)
		default:
			more = false
		}
	}
	for ; unconfirmed.said < len(unconfirmed.fired); unconfirmed.said++ {
		fired := &agentv1.FromAgent_Fired{Fired: unconfirmed.fired[unconfirmed.said]}
		if err := s.wire.Send(&agentv1.FromAgent{Word: fired}); err != nil {
			return err
		}
		s.pace.due = time.Now()
	}
	return nil
}
