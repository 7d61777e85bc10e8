// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	"bicast/api/agentv1"
)

// maxUnconfirmed is the limit of armed failovers, which may all fire at once (agent/failover).
const maxUnconfirmed = 512

// unconfirmed holds the fired failovers that the controller has not confirmed. The session keeps them, because a broken stream
// may lose sent messages. The controller reads messages in order, so a confirmed report confirms those sent before it.
type unconfirmed struct {
	fired   []*agentv1.FailoverFired
	sent    int // how many of them were sent on this stream
	covered int // how many of them were sent before the report in flight
}

// startStream resets the counts for a new stream.
func (u *unconfirmed) startStream() { u.sent, u.covered = 0, 0 }

// reportSent marks the failovers sent so far: the confirmation of this report confirms them.
func (u *unconfirmed) reportSent() { u.covered = u.sent }

// reportConfirmed removes the failovers that the controller has read before the report.
func (u *unconfirmed) reportConfirmed() {
	u.fired = u.fired[u.covered:]
	u.sent, u.covered = u.sent-u.covered, 0
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
	for ; unconfirmed.sent < len(unconfirmed.fired); unconfirmed.sent++ {
		fired := &agentv1.FromAgent_Fired{Fired: unconfirmed.fired[unconfirmed.sent]}
		if err := s.wire.Send(&agentv1.FromAgent{Payload: fired}); err != nil {
			return err
		}
		s.pace.due = time.Now()
	}
	return nil
}
