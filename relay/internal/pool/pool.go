// SPDX-License-Identifier: Apache-2.0

// Package pool keeps connections to a relay that are opened already, so that a request costs no round trip for TCP and TLS.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"bicast/relay/internal/carry"
)

// Most is how many are in store at most.
const Most = 16

const (
	stored     = Most
	began      = 2                // when one was wanted where none was in store; twice as many each time that it happens again
	usedFor    = time.Minute      // after one was wanted; then only the least are in store
	atOnce     = 8                // opened by the keeper
	callers    = 32               // who open one each at the same time
	sharers    = 128              // likewise, of all pools with one Turns: a relay resets some of 256 that it does not know yet
	keptFor    = 60 * time.Second // a relay lets go of those that ask for nothing
	openWithin = time.Second      // for who waits, without a sign of life; the keeper gives it more
	fillWithin = 3 * time.Second
	openAtMost = 5 * time.Second // in all, which is what a relay gives a handshake
	attempts   = 2               // of who waits, at a relay that lives
	tryEvery   = time.Second     // where the relay cannot be reached
)

// Turns bounds how many connections are being opened to a relay at the same time, by all pools that share it.
type Turns chan struct{}

// NewTurns returns a bound for the pools of one relay.
func NewTurns() Turns { return make(Turns, sharers) }

// Pool is of one relay.
type Pool struct {
	Open    func(context.Context) (*carry.Secure, error)
	Changed func(error) // whether the relay can be reached, when that is another thing than before

	mutex    sync.Mutex
	least    int // in store, also where none is wanted
	size     int // in store, while some are
	used     time.Time
	idle     []*waiting // the oldest first
	opening  int
	down     error     // why the relay cannot be reached; nil: it can, as far as known
	answered time.Time // when the relay was heard of last
	shunned  time.Time // when one that was just opened was ended by the relay
	heard    context.Context
	silent   context.CancelFunc // ends it
	stirred  chan struct{}
	calls    chan struct{} // of those who wait for one that is opened
	turns    Turns
}

type waiting struct {
	end    *carry.Secure
	since  time.Time
	parted chan struct{} // who watches it has ended
}

var (
	errEnded  = errors.New("no connections to the relay are opened any more") // the keeper has ended
	errSilent = errors.New("the relay does not answer")
	errSlow   = errors.New("the relay answers others, and not this")
)

// New is a pool without a connection, that fills itself.
func New(open func(context.Context) (*carry.Secure, error), changed func(error), turns Turns) *Pool {
	p := &Pool{
		Open: open, Changed: changed, least: stored, stirred: make(chan struct{}, 1), calls: make(chan struct{}, callers), turns: turns,
	}
	p.heard, p.silent = context.WithCancel(context.Background())
	return p
}

// Heard is over when the relay has gone silent: whoever waits for its answer then waits in vain. One that refuses, or lets
// nobody in, is not silent, and may answer those who are in.
func (p *Pool) Heard() context.Context {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.heard
}

// Least is how many are in store also where none is wanted: with none of them, nothing is known of a relay that is not used.
func (p *Pool) Least(n int) {
	p.mutex.Lock()
	p.least = n
	p.mutex.Unlock()
	p.stir()
}

// Stored is how many wait, and why the relay cannot be reached, where that is known.
func (p *Pool) Stored() (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.idle), p.down
}

// Take returns an opened connection, or why there is none: at once where the relay is known to be out of reach, and elsewhere
// within a second in which nothing is heard of the relay. A relay to which none could be opened just now may be silent on those
// that wait, too.
func (p *Pool) Take(ctx context.Context) (*carry.Secure, error) {
	defer p.stir()
	called := false
	for tried := 0; ; {
		one, down := p.stored()
		switch {
		case one != nil && one.claim():
			return one.end, nil
		case one != nil:
		case down != nil:
			return nil, down
		case called:
			end, err := p.open(ctx, openWithin)
			if tried++; err == nil || tried == attempts || errors.Is(err, errSlow) || ctx.Err() != nil {
				return end, err
			}
		default:
			select {
			case p.calls <- struct{}{}:
				defer func() { <-p.calls }()
				called = true // and meanwhile there may be one, or none at all
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// stored is the youngest in store; nil: there is none, or why the relay cannot be reached.
func (p *Pool) stored() (*waiting, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.used = time.Now()
	n := len(p.idle)
	switch {
	case p.down != nil:
		return nil, p.down
	case n == 0:
		p.size = min(max(2*p.size, began), stored)
		return nil, nil
	}
	one := p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.size = max(p.size, 1) // by what is opened in its place it is known whether the relay still answers
	return one, nil
}

// open opens a connection. It gives the relay a time from its last sign of life: under load, or over a full or lossy uplink, one
// handshake may take long while others are answered.
func (p *Pool) open(parent context.Context, within time.Duration) (*carry.Secure, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-parent.Done():
		return nil, parent.Err()
	}
	ctx, cancel := context.WithTimeout(parent, openAtMost)
	defer cancel()
	began := time.Now()
	go p.hold(ctx, began, within, cancel)
	end, err := p.Open(ctx)
	switch {
	case err == nil:
	case parent.Err() != nil:
		return nil, parent.Err() // which tells nothing of the relay
	case ctx.Err() != nil && p.heardSince(began):
		err = fmt.Errorf("%w, within %v", errSlow, time.Since(began).Round(time.Millisecond))
	case ctx.Err() != nil:
		err = fmt.Errorf("%w within %v", errSilent, within)
	}
	p.found(began, err)
	return end, err
}

// hold gives up when nothing was heard of the relay for a time.
func (p *Pool) hold(ctx context.Context, began time.Time, within time.Duration, giveUp func()) {
	for last := began; ; {
		select {
		case <-time.After(time.Until(last.Add(within))):
		case <-ctx.Done():
			return
		}
		p.mutex.Lock()
		answered := p.answered
		p.mutex.Unlock()
		if !answered.After(last) {
			giveUp()
			return
		}
		last = answered
	}
}

func (p *Pool) heardSince(began time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.answered.After(began)
}

// Answered says that the relay has just been heard of, by a connection that was taken.
func (p *Pool) Answered() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answered = time.Now()
}

// found is whether the relay can be reached. One that has answered since an opening began can, whatever became of that one.
func (p *Pool) found(began time.Time, err error) {
	p.mutex.Lock()
	if err != nil && p.answered.After(began) {
		p.mutex.Unlock()
		return
	}
	changed := (err == nil) != (p.down == nil)
	p.down = err
	if err == nil {
		p.answered = time.Now()
	}
	if err == nil && p.heard.Err() != nil {
		p.heard, p.silent = context.WithCancel(context.Background())
	}
	p.mutex.Unlock()
	if changed && p.Changed != nil && !errors.Is(err, errEnded) {
		p.Changed(err)
	}
}

func (p *Pool) stir() {
	select {
	case p.stirred <- struct{}{}:
	default:
	}
}

// Keep fills the pool until the context ends.
func (p *Pool) Keep(ctx context.Context) {
	var openings sync.WaitGroup
	ticks := time.NewTicker(tryEvery)
	defer ticks.Stop()
	for ctx.Err() == nil {
		p.retire(time.Now())
		for range p.wanted() {
			openings.Add(1)
			go func() {
				defer openings.Done()
				p.fill(ctx)
			}()
		}
		ticked := ticks.C
		if p.rests() {
			ticked = nil
		}
		select {
		case <-p.stirred:
		case <-ticked:
		case <-ctx.Done():
		}
	}
	openings.Wait()
	p.found(time.Now(), errEnded)
	p.retire(time.Now().Add(2 * keptFor))
}

// rests tells whether there is nothing to look after; what is known of the relay grows old then, and is forgotten.
func (p *Pool) rests() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.target(time.Now()) > 0 || len(p.idle) > 0 || p.opening > 0 {
		return false
	}
	p.down = nil
	return true
}

// target is how many are to be in store. Under the mutex.
func (p *Pool) target(now time.Time) int {
	if now.Sub(p.used) > usedFor {
		p.size = 0
	}
	return max(p.least, p.size)
}

// wanted is how many are to be opened: where the relay cannot be reached, one finds out whether it can; where it, or somebody on
// the way, ends what was opened, it is not asked over and over.
func (p *Pool) wanted() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Since(p.shunned) < tryEvery {
		return 0
	}
	n := min(p.target(time.Now())-len(p.idle), atOnce) - p.opening
	if p.down != nil {
		n = min(n, 1-p.opening)
	}
	n = max(n, 0)
	p.opening += n
	return n
}

func (p *Pool) fill(ctx context.Context) {
	end, err := p.open(ctx, fillWithin)
	p.mutex.Lock()
	p.opening--
	if errors.Is(err, errSilent) && ctx.Err() == nil {
		p.silent()
	}
	if err == nil {
		one := &waiting{end, time.Now(), make(chan struct{})}
		p.idle = append(p.idle, one)
		go p.watch(one)
	}
	p.mutex.Unlock()
	if err == nil {
		p.stir() // there may be more to open
	}
}

// watch waits for a relay's end of a connection that nobody has asked anything of: it can say nothing else. Whether the relay
// can be reached is found out by opening another one.
func (p *Pool) watch(one *waiting) {
	defer close(one.parted)
	if !one.end.Stirs() {
		return // it was taken
	}
	p.mutex.Lock()
	if at := slices.Index(p.idle, one); at >= 0 {
		p.idle = slices.Delete(p.idle, at, at+1)
	}
	if time.Since(one.since) < tryEvery {
		p.shunned = time.Now()
	}
	p.mutex.Unlock()
	one.end.Reset()
	p.stir()
}

// claim ends the watch; false: the connection has ended.
func (w *waiting) claim() bool {
	w.end.SetReadDeadline(time.Unix(1, 0))
	<-w.parted
	return w.end.SetReadDeadline(time.Time{}) == nil
}

func (p *Pool) retire(now time.Time) {
	p.mutex.Lock()
	var old []*waiting
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) > keptFor {
		old = append(old, p.idle[0])
		p.idle = p.idle[1:]
	}
	p.mutex.Unlock()
	for _, each := range old {
		if each.claim() {
			each.end.CloseWrite()
			each.end.Close()
		}
	}
}
