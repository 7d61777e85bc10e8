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

const bufferBytes = 1 << 11 // of a packet all that is read is at its beginning

// Reflector is a Session-Reflector: it answers the sessions that it was told, and nobody else, and never with more than it got.
type Reflector struct {
	socket        *timestamping.Socket
	lock          sync.Mutex
	authenticator authenticator
}

// Listen is at an address of this host, or without one at all of them, in the calling thread's network namespace; with a
// device by that alone.
func Listen(at netip.AddrPort, device string) (*Reflector, error) {
	socket, err := timestamping.Listen(at, device)
	if err != nil {
		return nil, err
	}
	return &Reflector{socket: socket, authenticator: newAuthenticator(socket.Local().Port())}, nil
}

// Open answers a session from now on; it takes the place of one of the same number (without a key: of the same address).
func (r *Reflector) Open(s Session) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.open(s)
}

// Drop answers a session no longer.
func (r *Reflector) Drop(s Session) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.authenticator.drop(s)
}

// Counts are of all sessions since it listens.
func (r *Reflector) Counts() Counts {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.counts
}

// Local is where it listens.
func (r *Reflector) Local() netip.AddrPort { return r.socket.Local() }

// Close ends Run.
func (r *Reflector) Close() { r.socket.Close() }

// Run answers until the context ends or it is closed.
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
	answer.Estimate = own | answer.To.Estimate&inPTP // who sends in a format reads it, too
	answer.Received = answer.Estimate.Wire(r.arrived(came, event))
	answer.TTL = byte(event.TTL)
	answer.Time = answer.Estimate.Wire(time.Now().UnixNano())
	r.socket.Answer(answer.Seal(sender.Key), event) // what cannot be sent is lost, as on the way
}

// arrived is by the clock that answers are stamped with as they leave: a card's own is another one.
func (r *Reflector) arrived(came clock.Instant, event timestamping.Event) int64 {
	if event.At == 0 || r.socket.Hardware() {
		return came.Wall
	}
	return event.At
}
