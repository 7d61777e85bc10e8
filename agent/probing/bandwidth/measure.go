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
	silence     = 3 * time.Second // or so many packets, whichever is longer: then the far end has stopped
	silentFor   = 20
	closesIn    = time.Second // without an answer, when all has been sent
	closesEvery = 10 * time.Millisecond
	nearly      = 50 * time.Millisecond // before its time a packet is made
)

// Prober sends one plan's packets.
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
	heard   time.Duration // when the count of answers last changed
	before  int

	silence, closesIn time.Duration
}

// Dial is in the calling thread's network namespace; by one device, where one is given.
func Dial(to netip.AddrPort, device string, key Key) (*Prober, error) {
	return DialFrom(netip.AddrPort{}, to, device, key)
}

// DialFrom is Dial from one of our addresses.
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

// newFiller is nothing that a link could compress.
func newFiller() *random.ChaCha8 {
	var seed [32]byte
	rand.Read(seed[:])
	return random.NewChaCha8(seed)
}

// Close ends what it does.
func (p *Prober) Close() { p.socket.Close() }

// Measure sends what is planned. Where it ends before that, for the far end's sake or the context's, the result has what came
// until then, and says why; the error is that there is none.
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
	took := clock.Monotonic() - began
	if early == nil {
		p.finish(ctx, sent, plan)
	}
	p.socket.Close()
	<-ended
	result := p.ledger.result(sent)
	result.Hardware, result.Six = p.socket.Hardware(), p.to.Addr().Unmap().Is6()
	result.Late, result.Took, result.Ended = p.pace.late, took, early
	return result, nil
}

// listen takes all that comes, until the socket is closed.
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
				p.ledger.took(a, event.At)
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

// send is nil when all that was planned was sent.
func (p *Prober) send(ctx context.Context, plan Plan) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)       // nanoseconds: who wakes late is late
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // as it was
	p.heard = clock.Monotonic()
	p.pace = pace{every: plan.Every, random: p.random, due: p.heard + plan.Every}
	for _, length := range plan.singles(p.random) {
		if err := p.goesOn(ctx, plan.Every); err != nil {
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

// train is of as many packets as singly would have taken the time until the next one.
func (p *Prober) train(ctx context.Context, plan Plan, train int) error {
	if err := p.goesOn(ctx, plan.pause()); err != nil {
		return err
	}
	length := max(plan.shortest(), p.ledger.longest())
	first := p.ledger.number()
	packets := make([][]byte, plan.TrainPackets)
	for n := range packets {
		packets[n] = p.made(first+uint32(n), length)
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

func (p *Prober) next(length int) []byte { return p.made(p.ledger.number(), length) }

// made is a packet of a length, or one that asks for it.
func (p *Prober) made(number uint32, length int) []byte {
	h := head{p.session, number}
	if p.down {
		return request{h, length}.seal(&p.key)
	}
	b := make([]byte, length)
	p.filler.Read(b)
	sealProbe(&p.key, h, b)
	return b
}

// put sends; a packet that the host itself has no room for is lost, as one that a router has none for.
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
		return fmt.Errorf("the far end went away: nobody listens at %v any more (connection refused)", p.to)
	}
	return fmt.Errorf("%v can no longer be probed: %w", p.to, err)
}

// goesOn waits until the next packet is nearly due, and is nil while the far end answers.
func (p *Prober) goesOn(ctx context.Context, every time.Duration) error {
	p.pace.rest(ctx)
	heard, failed := p.ledger.progress()
	now := clock.Monotonic()
	if heard != p.before {
		p.before, p.heard = heard, now
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("it was told to end")
	case failed != nil:
		return p.gone(failed)
	case now-p.heard > max(p.silence, silentFor*every):
		return fmt.Errorf("the far end stopped: nothing was heard of %v for %v", p.to, (now - p.heard).Round(time.Second))
	}
	return nil
}

// finish awaits the last answers, and has it told by some more probes when these left.
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
