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
	maxUnreported = 4096 // answers whose departure is not reported yet
	driverAnswers = 16   // after this many answers without a driver's timestamp, the driver counts as unable
)

// Settings configure a Reflector.
type Settings struct {
	At     netip.AddrPort // without an address: all addresses of this host
	Device string         // the only device to use; "": any
	Key    Key
}

// Reflector answers one session of probes at a time and reports when each probe arrived.
type Reflector struct {
	socket        *timestamping.Socket
	lock          sync.Mutex
	authenticator authenticator

	answers      map[uint32]uint32 // probe numbers by timestamp ID
	sent         int
	driverStamps bool // whether the driver stamps departing packets
	left         []departure
	filler       io.Reader // for answers of a requested length
}

type departure struct {
	number uint32
	at     int64
}

// Open listens in the calling thread's network namespace.
func Open(settings Settings) (*Reflector, error) {
	socket, err := timestamping.Listen(settings.At, settings.Device)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for probes at %v: %w", settings.At, err)
	}
	return &Reflector{
		socket: socket, authenticator: newAuthenticator(settings.Key), answers: map[uint32]uint32{}, driverStamps: socket.Hardware(), filler: newFiller(),
	}, nil
}

// Local returns the listening address.
func (r *Reflector) Local() netip.AddrPort { return r.socket.Local() }

// Counters returns the counts since the start.
func (r *Reflector) Counters() Counters {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.authenticator.counters
}

// Run answers until the context ends or Close is called.
func (r *Reflector) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.Close)()
	buffer := make([]byte, 1<<16)
	for {
		event, err := r.socket.Next(buffer, time.Time{})
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("cannot receive probes at %v any more: %w", r.Local(), err)
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
	verdict := r.authenticator.judge(clock.Monotonic(), event.From, b)
	switch {
	case verdict.answers:
		if verdict.to.number == 0 {
			clear(r.answers)
			r.left = nil
		}
		r.send(event, verdict.to)
	case verdict.sendBack != nil:
		r.socket.Answer(verdict.sendBack, event) // the prober repeats its opening if this is lost
	}
}

func (r *Reflector) send(event timestamping.Event, to request) {
	said := answer{
		head: to.head, received: event.At, length: event.Length, hardware: r.socket.Hardware(), written: int64(clock.Monotonic()),
	}
	told := r.left[:min(1, len(r.left))]
	for _, each := range told {
		said.earlier, said.left = each.number, each.at
	}
	id, err := r.socket.Answer(r.sealed(said, to.length), event)
	if err != nil { // counts as lost
		r.authenticator.counters.Unsent++
		return
	}
	r.left = r.left[len(told):]
	r.sent++
	r.authenticator.counters.Answered++
	r.answers[id] = to.number
	delete(r.answers, id-maxUnreported)
}

func (r *Reflector) sealed(said answer, length int) []byte {
	if length == 0 {
		return said.seal(&r.authenticator.key)
	}
	b := make([]byte, length)
	r.filler.Read(b)
	return said.fill(&r.authenticator.key, b)
}

// departed records when an answer left. A later answer reports that.
func (r *Reflector) departed(event timestamping.Event) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if event.Moment == timestamping.Left {
		r.driverStamps = true
	} else if r.driverStamps || r.sent < driverAnswers {
		return
	}
	number, ours := r.answers[event.ID]
	if ours && number != 0 && len(r.left) < maxUnreported {
		r.left = append(r.left, departure{number, event.At})
	}
}
