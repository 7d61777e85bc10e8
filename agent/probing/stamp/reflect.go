// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"bicast/internal/clock"
	"bicast/internal/timestamping"
)

const bufferBytes = 1 << 11 // only the beginning of a packet is read

// Reflector is a Session-Reflector. It answers only its sessions, and never with more bytes than it received.
type Reflector struct {
	socket        *timestamping.Socket
	lock          sync.Mutex
	authenticator authenticator
}

// Listen listens in the calling thread's network namespace, at one address or at all, and on one device if device is
// not empty.
func Listen(at netip.AddrPort, device string) (*Reflector, error) {
	socket, err := timestamping.Listen(at, device)
	if err != nil {
		return nil, err
	}
	return &Reflector{socket: socket, authenticator: newAuthenticator(socket.Local().Port())}, nil
}

// Open starts to answer a session. It replaces the session with the same ID (without a key: the same address).
func (r *Reflector) Open(s Session) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.open(s)
}

// Drop stops answering a session.
func (r *Reflector) Drop(s Session) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.authenticator.drop(s)
}

// Counts returns the counters of all sessions.
func (r *Reflector) Counts() Counts {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.counts
}

// Local returns the listening address.
func (r *Reflector) Local() netip.AddrPort { return r.socket.Local() }

// Close ends Run.
func (r *Reflector) Close() { r.socket.Close() }

// Run answers until the context ends or Close is called.
func (r *Reflector) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.Close)()
	b := make([]byte, bufferBytes)
	own, asked := ownEstimate(), clock.Now().At
	for {
		event, err := r.socket.Next(b, time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || event.Moment != timestamping.Arrived {
			continue
		}
		came := clock.Now()
		if came.At-asked > time.Second {
			own, asked = ownEstimate(), came.At
		}
		r.answer(came, own, event, b[:min(event.Length, len(b))])
	}
}

func (r *Reflector) answer(came clock.Instant, own Estimate, event timestamping.Event, b []byte) {
	r.lock.Lock()
	defer r.lock.Unlock()
	sender, answer, ok := r.authenticator.answer(came.At, event.From, b)
	if !ok {
		return
	}
	answer.Estimate = own | answer.To.Estimate&inPTP // answer in the sender's format
	answer.Received = answer.Estimate.Wire(r.arrived(came, event))
	answer.TTL = byte(event.TTL)
	answer.Time = answer.Estimate.Wire(time.Now().UnixNano())
	r.socket.Answer(answer.Seal(sender.Key), event) // an unsent answer counts as lost, like one lost on the path
}

// arrived returns the arrival time on the clock that stamps departing answers. A network card's timestamp is from
// another clock.
func (r *Reflector) arrived(came clock.Instant, event timestamping.Event) int64 {
	if event.At == 0 || r.socket.Hardware() {
		return came.Wall
	}
	return event.At
}
