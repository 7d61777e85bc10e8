// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/clock"
	"bicast/internal/timestamping"
)

const (
	silence     = 3 * time.Second // or silentFor packets, whichever is longer: then the peer has stopped
	silentFor   = 20
	closesIn    = time.Second // without an answer after the last packet
	closesEvery = 10 * time.Millisecond
	nearly      = 50 * time.Millisecond // packets are built this long before they are due
)

// Prober sends the packets of one plan.
type Prober struct {
	socket  *timestamping.Socket
	key     Key
	to      netip.AddrPort
	session uint32
	random  *random.Rand
	filler  io.Reader
	down    bool
	ledger  *ledger
	pace    pace
	heard   time.Duration // time of the last answer
	before  int

	silence, closesIn time.Duration
}

// Dial opens a prober in the calling thread's network namespace, on one device if device is not empty.
func Dial(to netip.AddrPort, device string, key Key) (*Prober, error) {
	return DialFrom(netip.AddrPort{}, to, device, key)
}

// DialFrom is Dial with a local address.
func DialFrom(from, to netip.AddrPort, device string, key Key) (*Prober, error) {
	socket, err := timestamping.Dial(from, to, device)
	if err != nil {
		return nil, err
	}
	filler := newFiller()
	session := max(1, uint32(filler.Uint64()))
	return &Prober{
		socket: socket, key: key, to: to, session: session, filler: filler, random: random.New(filler),
		ledger: &ledger{of: map[uint32]*[2]int64{}}, silence: silence, closesIn: closesIn,
	}, nil
}

// newFiller returns a source of bytes that links cannot compress.
func newFiller() *random.ChaCha8 {
	var seed [32]byte
	rand.Read(seed[:])
	return random.NewChaCha8(seed)
}

// Close ends a running measurement.
func (p *Prober) Close() { p.socket.Close() }

// Measure sends the plan. If the peer or the context ends it early, the result has the packets so far and the reason.
// An error means that there is no result.
func (p *Prober) Measure(ctx context.Context, plan Plan) (Result, error) {
	if err := plan.Check(); err != nil {
		return Result{}, err
	}
	if err := p.open(ctx); err != nil {
		return Result{}, err
	}
	p.down, p.ledger.down = plan.Down, plan.Down
	ended := make(chan struct{})
	go func() {
		p.listen()
		close(ended)
	}()
	began := clock.Monotonic()
	early := p.send(ctx, plan)
	sent := int(p.ledger.number()) - 1
	addAnswer := clock.Monotonic() - began
	if early == nil {
		p.finish(ctx, sent, plan)
	}
	p.socket.Close()
	<-ended
	result := p.ledger.result(sent)
	result.Hardware, result.Six = p.socket.Hardware(), p.to.Addr().Unmap().Is6()
	result.Late, result.Took, result.Ended = p.pace.late, addAnswer, early
	return result, nil
}

// listen receives until the socket is closed.
func (p *Prober) listen() {
	buffer := make([]byte, 1<<16)
	for {
		event, err := p.socket.Next(buffer, time.Time{})
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			p.ledger.fail(err)
			if !errors.Is(err, unix.ECONNREFUSED) {
				return
			}
		case event.Moment != timestamping.Arrived:
			p.ledger.stamped(event)
		case event.Length <= len(buffer):
			if a, right := p.answer(buffer[:event.Length]); right && a.session == p.session {
				p.ledger.addAnswer(a, event.At)
			}
		}
	}
}

func (p *Prober) answer(b []byte) (answer, bool) {
	if p.down {
		return openFilled(&p.key, b)
	}
	return openAnswer(&p.key, b)
}

// send returns nil when the whole plan was sent.
func (p *Prober) send(ctx context.Context, plan Plan) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)       // in nanoseconds: a late wake-up delays the packet
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default
	p.heard = clock.Monotonic()
	p.pace = pace{every: plan.Every, random: p.random, due: p.heard + plan.Every}
	for _, length := range plan.singles(p.random) {
		if err := p.awaitNext(ctx, plan.Every); err != nil {
			return err
		}
		packet := p.next(length)
		p.pace.await()
		if err := p.put(0, length, packet); err != nil {
			return err
		}
		p.pace.sent()
	}
	for train := range plan.Trains {
		if err := p.train(ctx, plan, train+1); err != nil {
			return err
		}
	}
	return nil
}

// train sends a train, followed by a pause as long as its packets would take singly.
func (p *Prober) train(ctx context.Context, plan Plan, train int) error {
	if err := p.awaitNext(ctx, plan.pause()); err != nil {
		return err
	}
	length := max(plan.shortest(), p.ledger.longest())
	first := p.ledger.number()
	packets := make([][]byte, plan.TrainPackets)
	for n := range packets {
		packets[n] = p.build(first+uint32(n), length)
	}
	p.pace.await()
	for _, packet := range packets {
		if err := p.put(train, length, packet); err != nil {
			return err
		}
	}
	p.pace.after(clock.Monotonic(), plan.pause(), plan.pause())
	return nil
}

func (p *Prober) next(length int) []byte { return p.build(p.ledger.number(), length) }

// build makes a probe of this length, or a request for an answer of this length.
func (p *Prober) build(number uint32, length int) []byte {
	h := head{p.session, number}
	if p.down {
		return request{h, length}.seal(&p.key)
	}
	b := make([]byte, length)
	p.filler.Read(b)
	sealProbe(&p.key, h, b)
	return b
}

// put sends a packet. A packet that this host's queue rejects counts as lost, like one that a router drops.
func (p *Prober) put(train, length int, b []byte) error {
	p.ledger.begin(train, length)
	id, err := p.socket.Write(b)
	if err == nil {
		p.ledger.wrote(id)
		return nil
	}
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN) {
		return nil
	}
	return p.gone(err)
}

func (p *Prober) gone(err error) error {
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("the peer went away: nobody listens at %v any more (connection refused)", p.to)
	}
	return fmt.Errorf("cannot probe %v any more: %w", p.to, err)
}

// awaitNext waits until the next packet is nearly due. It returns nil while the peer answers.
func (p *Prober) awaitNext(ctx context.Context, every time.Duration) error {
	p.pace.rest(ctx)
	heard, failed := p.ledger.progress()
	now := clock.Monotonic()
	if heard != p.before {
		p.before, p.heard = heard, now
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("the probe was cancelled")
	case failed != nil:
		return p.gone(failed)
	case now-p.heard > max(p.silence, silentFor*every):
		return fmt.Errorf("the peer stopped: no answer from %v for %v", p.to, (now - p.heard).Round(time.Second))
	}
	return nil
}

// finish awaits the last answers. It sends more probes, whose answers report when the last ones left.
func (p *Prober) finish(ctx context.Context, sent int, plan Plan) {
	pause := min(max(plan.Every, closesEvery/10), closesEvery)
	since, before := clock.Monotonic(), 0
	for ctx.Err() == nil && clock.Monotonic()-since < p.closesIn {
		heard, answered := p.ledger.known(sent)
		if _, failed := p.ledger.progress(); failed != nil || heard+answered == 2*sent {
			return
		}
		if heard+answered != before {
			since, before = clock.Monotonic(), heard+answered
		}
		sleepUntil(clock.Monotonic() + pause)
		if p.put(0, plan.shortest(), p.next(plan.shortest())) != nil {
			return
		}
	}
}
