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
	defaultPause = 100 * time.Millisecond
	inFlight     = 64                     // packets that wait for their timestamp and answer
	minClockStep = 100 * time.Microsecond // a larger difference between two readings means that the clock was set
)

// Target is a Session-Reflector and how to reach it.
type Target struct {
	To       netip.AddrPort
	From     netip.AddrPort // optional address of this host
	Device   string         // optional device for all packets
	ID       uint16
	Key      []byte        // nil: unauthenticated mode. Never reuse a key
	Stateful bool          // whether the peer numbers its answers by itself
	Pause    time.Duration // between packets; 0: defaultPause
}

// Sending counts the packets of a Session-Sender.
type Sending struct {
	Sent, Answered uint64
	Refused        uint64 // ICMP port unreachable
	Unsent         uint64 // this host failed to send them; they count as lost
	Wrong          uint64 // received packets that are forged, short, replayed or seconds late
}

// outgoing is a sent packet that waits for the kernel's timestamp and its answer.
type outgoing struct {
	id, number uint32
	wire       uint64
	offset     time.Duration
}

// Sender is a Session-Sender (RFC 8762).
type Sender struct {
	target Target
	socket *timestamping.Socket

	lock    sync.Mutex
	history History
	next    uint32
	out     [inFlight]outgoing // by number
	sending Sending
}

// Dial opens a sender in the calling thread's network namespace.
func Dial(target Target) (*Sender, error) {
	socket, err := timestamping.Dial(target.From, target.To, target.Device)
	if err != nil {
		return nil, err
	}
	if target.Pause == 0 {
		target.Pause = defaultPause
	}
	return &Sender{target: target, socket: socket, history: NewHistory(target.Stateful)}, nil
}

// Again continues the session on a new socket after Run has ended, because a device that returned or changed its
// address needs one. Numbers and history continue.
func (s *Sender) Again() (*Sender, error) {
	next, err := Dial(s.target)
	if err != nil {
		return nil, err
	}
	next.history, next.next, next.sending = s.history, s.next, s.sending
	return next, nil
}

// Local returns the address that packets are sent from.
func (s *Sender) Local() netip.AddrPort { return s.socket.Local() }

// Close ends Run.
func (s *Sender) Close() { s.socket.Close() }

// Windows returns the windows of 1 s, 10 s and 60 s.
func (s *Sender) Windows() []Window {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.history.Windows(clock.Monotonic())
}

// Totals returns the counts of answered and lost packets.
func (s *Sender) Totals() Totals {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.history.Totals(clock.Monotonic())
}

// Sending returns the counters since the first packet.
func (s *Sender) Sending() Sending {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.sending
}

// Run sends and receives until the context ends or Close is called.
func (s *Sender) Run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, s.Close)()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer stop() // after Close
		s.receive()
	}()
	s.pace(ctx)
	s.Close()
	<-heard
}

// pace keeps to the initial schedule. It skips missed packets instead of sending them in a burst.
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
	if errors.Is(err, unix.ECONNREFUSED) { // the pending error of an earlier packet prevented this one
		s.sending.Refused++
		id, err = s.socket.Write(b)
	}
	if err != nil {
		s.sending.Unsent++
		return
	}
	s.out[p.Number%inFlight] = outgoing{id: id, number: p.Number, wire: p.Time, offset: leaves.Offset()}
}

func (s *Sender) receive() {
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

// left records when the packet entered its device's queue: the wait in that queue is part of the path.
func (s *Sender) left(heard clock.Instant, event timestamping.Event) {
	if event.At == 0 || s.socket.Hardware() {
		return
	}
	for _, each := range s.out {
		if each.id == event.ID && each.wire != 0 && (heard.Offset()-each.offset).Abs() < minClockStep {
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
	unclear := (heard.Offset() - of.offset).Abs() >= minClockStep
	if unclear {
		at = heard.At
	}
	received, left := answer.Estimate.Nanoseconds(answer.Received), answer.Estimate.Nanoseconds(answer.Time)
	if !s.history.Returned(answer.To.Number, answer.Number, received, left, at, unclear) {
		s.sending.Wrong++
		return
	}
	s.sending.Answered++
}
