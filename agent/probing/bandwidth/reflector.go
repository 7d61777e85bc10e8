// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"bicast/internal/clock"
	"bicast/internal/timestamping"
)

const (
	unsaid     = 4096 // answers of which it is not told yet when they left
	impatience = 16   // after so many, a driver that tells of none when it left is taken not to
)

// Settings of a Reflector.
type Settings struct {
	At     netip.AddrPort // without an address: at all of this host
	Device string         // to answer by it alone; "": by any
	Key    Key
}

// Reflector answers one session of probes at a time, and says when each came.
type Reflector struct {
	socket        *timestamping.Socket
	lock          sync.Mutex
	authenticator authenticator

	answers map[uint32]uint32 // the number, by the stamp's id
	sent    int
	tells   bool // the driver does, when packets left
	left    []departure
	filler  io.Reader // of answers as long as was asked
}

type departure struct {
	number uint32
	at     int64
}

// Open is in the calling thread's network namespace.
func Open(settings Settings) (*Reflector, error) {
	socket, err := timestamping.Listen(settings.At, settings.Device)
	if err != nil {
		return nil, fmt.Errorf("probes cannot be answered at %v: %w", settings.At, err)
	}
	return &Reflector{
		socket: socket, authenticator: newAuthenticator(settings.Key), answers: map[uint32]uint32{}, tells: socket.Hardware(), filler: newFiller(),
	}, nil
}

// Local is where it answers.
func (r *Reflector) Local() netip.AddrPort { return r.socket.Local() }

// Counters are of all that came so far.
func (r *Reflector) Counters() Counters {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.counters
}

// Run answers until the context ends, or it is closed.
func (r *Reflector) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.Close)()
	buffer := make([]byte, 1<<16)
	for {
		event, err := r.socket.Next(buffer, time.Time{})
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("probes are no longer heard at %v: %w", r.Local(), err)
		case event.Moment != timestamping.Arrived:
			r.departed(event)
		case event.Length <= len(buffer):
			r.answer(event, buffer[:event.Length])
		}
	}
}

// Close ends Run.
func (r *Reflector) Close() { r.socket.Close() }

func (r *Reflector) answer(event timestamping.Event, b []byte) {
	r.lock.Lock()
	defer r.lock.Unlock()
	verdict := r.authenticator.take(clock.Monotonic(), event.From, b)
	switch {
	case verdict.answers:
		if verdict.to.number == 0 {
			clear(r.answers)
			r.left = nil
		}
		r.say(event, verdict.to)
	case verdict.sendBack != nil:
		r.socket.Answer(verdict.sendBack, event) // who hears none asks again
	}
}

func (r *Reflector) say(event timestamping.Event, to request) {
	said := answer{
		head: to.head, received: event.At, length: event.Length, hardware: r.socket.Hardware(), written: int64(clock.Monotonic()),
	}
	told := r.left[:min(1, len(r.left))]
	for _, each := range told {
		said.earlier, said.left = each.number, each.at
	}
	id, err := r.socket.Answer(r.sealed(said, to.length), event)
	if err != nil { // as if it were lost
		r.authenticator.counters.Unsent++
		return
	}
	r.left = r.left[len(told):]
	r.sent++
	r.authenticator.counters.Answered++
	r.answers[id] = to.number
	delete(r.answers, id-unsaid)
}

func (r *Reflector) sealed(said answer, length int) []byte {
	if length == 0 {
		return said.seal(&r.authenticator.key)
	}
	b := make([]byte, length)
	r.filler.Read(b)
	return said.fill(&r.authenticator.key, b)
}

// departed keeps when an answer left, for one of the next to tell.
func (r *Reflector) departed(event timestamping.Event) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if event.Moment == timestamping.Left {
		r.tells = true
	} else if r.tells || r.sent < impatience {
		return
	}
	number, ours := r.answers[event.ID]
	if ours && number != 0 && len(r.left) < unsaid {
		r.left = append(r.left, departure{number, event.At})
	}
}
