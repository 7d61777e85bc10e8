// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/clock"
	"bicast/internal/timestamping"
)

const (
	every    = 100 * time.Millisecond // where nothing else is asked for
	inFlight = 64                     // packets whose stamp and answer may come
	setBy    = 100 * time.Microsecond // more between two readings: the clock was set
)

// Target is a Session-Reflector and how it is reached.
type Target struct {
	To       netip.AddrPort
	From     netip.AddrPort // of this host; may be left out
	Device   string         // by which packets go, alone; may be left out
	ID       uint16
	Key      []byte        // nil: not authenticated. Never one that was used before
	Stateful bool          // the far end counts its answers by themselves
	Pause    time.Duration // between packets; 0: a tenth of a second
}

// Sending is what a Session-Sender saw, beside its windows.
type Sending struct {
	Sent, Answered uint64
	Refused        uint64 // the far host said that nobody listens there
	Unsent         uint64 // this host could not send them: they are lost
	Wrong          uint64 // packets that were no answers: forged, short, replayed or late by some seconds
}

// outgoing is a packet that was sent, until the kernel's stamp of it and its answer came.
type outgoing struct {
	id, number uint32
	wire       uint64
	offset     time.Duration
}

// Sender is a Session-Sender.
type Sender struct {
	target Target
	socket *timestamping.Socket

	lock    sync.Mutex
	history History
	next    uint32
	out     [inFlight]outgoing // by number
	sending Sending
}

// Dial is in the calling thread's network namespace.
func Dial(target Target) (*Sender, error) {
	socket, err := timestamping.Dial(target.From, target.To, target.Device)
	if err != nil {
		return nil, err
	}
	if target.Pause == 0 {
		target.Pause = every
	}
	return &Sender{target: target, socket: socket, history: NewHistory(target.Stateful)}, nil
}

// Again goes on, by a socket of its own, where this one's Run has ended: a device that came back, or has another address, wants
// one. The far end takes no number twice, and what is known of the path stays.
func (s *Sender) Again() (*Sender, error) {
	next, err := Dial(s.target)
	if err != nil {
		return nil, err
	}
	next.history, next.next, next.sending = s.history, s.next, s.sending
	return next, nil
}

// Local is where it sends from.
func (s *Sender) Local() netip.AddrPort { return s.socket.Local() }

// Close ends Run.
func (s *Sender) Close() { s.socket.Close() }

// Windows are of 1 s, 10 s and 60 s.
func (s *Sender) Windows() []Window {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.history.Windows(clock.Monotonic())
}

// Totals are of the packets of which it is known what became of them.
func (s *Sender) Totals() Totals {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.history.Totals(clock.Monotonic())
}

// Sending are counts since it began.
func (s *Sender) Sending() Sending {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.sending
}

// Run sends and hears until the context ends or it is closed.
func (s *Sender) Run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, s.Close)()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer stop() // where it was closed
		s.hear()
	}()
	s.pace(ctx)
	s.Close()
	<-heard
}

// pace keeps to the times that it began with; what it was too late for is left out and not sent at once.
func (s *Sender) pace(ctx context.Context) {
	due := clock.Monotonic()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		s.send()
		at := clock.Monotonic()
		due += s.target.Pause * (1 + max(0, at-due)/s.target.Pause)
		timer.Reset(due - at)
	}
}

func (s *Sender) send() {
	s.lock.Lock()
	defer s.lock.Unlock()
	own, leaves := ownEstimate(), clock.Now()
	p := Packet{Number: s.next, Session: s.target.ID, Time: own.Wire(leaves.Wall), Estimate: own}
	s.next++
	s.sending.Sent++
	s.history.Sent(p.Number, leaves.At)
	b := p.Seal(s.target.Key)
	id, err := s.socket.Write(b)
	if errors.Is(err, unix.ECONNREFUSED) { // of a packet before: this one was not sent for that
		s.sending.Refused++
		id, err = s.socket.Write(b)
	}
	if err != nil {
		s.sending.Unsent++
		return
	}
	s.out[p.Number%inFlight] = outgoing{id: id, number: p.Number, wire: p.Time, offset: leaves.Offset()}
}

func (s *Sender) hear() {
	b := make([]byte, bufferBytes)
	for {
		event, err := s.socket.Next(b, time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		heard := clock.Now()
		s.lock.Lock()
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			s.sending.Refused++
		case err != nil:
		case event.Moment == timestamping.Arrived:
			s.answered(heard, event, b[:min(event.Length, len(b))])
		case event.Moment == timestamping.Queued:
			s.left(heard, event)
		}
		s.lock.Unlock()
	}
}

// left takes the time when the packet went into its device's queue: what waits there waits for whoever uses the path.
func (s *Sender) left(heard clock.Instant, event timestamping.Event) {
	if event.At == 0 || s.socket.Hardware() {
		return
	}
	for _, each := range s.out {
		if each.id == event.ID && each.wire != 0 && (heard.Offset()-each.offset).Abs() < setBy {
			s.history.Left(each.number, time.Duration(event.At)-each.offset)
			return
		}
	}
}

func (s *Sender) answered(heard clock.Instant, event timestamping.Event, b []byte) {
	answer, ok := OpenAnswer(s.target.Key, b)
	of := s.out[answer.To.Number%inFlight]
	if !ok || of.wire == 0 || of.number != answer.To.Number || of.wire != answer.To.Time {
		s.sending.Wrong++
		return
	}
	at := heard.At
	if event.At != 0 && !s.socket.Hardware() {
		at = time.Duration(event.At) - of.offset
	}
	unclear := (heard.Offset() - of.offset).Abs() >= setBy
	if unclear {
		at = heard.At
	}
	received, left := answer.Estimate.Nanoseconds(answer.Received), answer.Estimate.Nanoseconds(answer.Time)
	if !s.history.Heard(answer.To.Number, answer.Number, received, left, at, unclear) {
		s.sending.Wrong++
		return
	}
	s.sending.Answered++
}
