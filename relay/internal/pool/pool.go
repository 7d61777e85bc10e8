// SPDX-License-Identifier: Apache-2.0

// Package pool keeps idle connections to a relay open, so that a request costs no round trips for TCP and TLS.
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

// Most is the maximum number of idle connections.
const Most = 16

const (
	stored            = Most
	began             = 2                // initial size after a request found the pool empty; doubles each time
	demandTimeout     = time.Minute      // after the last request; then only the minimum is kept
	maxKeeperOpenings = 8                // openings by the keeper
	maxCallers        = 32               // callers that open one each at the same time
	maxSharedOpenings = 128              // of all pools with one Turns: a relay evicts some of 256 unauthenticated ones
	idleTimeout       = 60 * time.Second // below the relay's idle limit of 2 min
	callerTimeout     = time.Second      // for a caller, without a sign of life; the keeper waits longer
	keeperTimeout     = 3 * time.Second
	openTimeout       = 5 * time.Second // in total; a relay allows as much for a handshake
	attempts          = 2               // by a caller, if the relay lives
	retryInterval     = time.Second     // while the relay is unreachable
)

// Turns limits simultaneous openings to a relay, over all pools that share it.
type Turns chan struct{}

// NewTurns returns a limit for the pools of one relay.
func NewTurns() Turns { return make(Turns, maxSharedOpenings) }

// Pool holds idle connections to one relay.
type Pool struct {
	Open    func(context.Context) (*carry.Secure, error)
	Changed func(error) // called when its reachability changes

	mutex         sync.Mutex
	least         int // minimum size, without demand
	size          int // size during demand
	used          time.Time
	idle          []*idleConn // oldest first
	opening       int
	down          error     // why the relay is unreachable; nil: it is reachable, as far as known
	answered      time.Time // last sign of life of the relay
	closedEarlyAt time.Time // when the relay closed a connection just after its opening
	alive         context.Context
	declareSilent context.CancelFunc // cancels alive
	wakeups       chan struct{}
	calls         chan struct{} // limits callers that open connections
	turns         Turns
}

type idleConn struct {
	end       *carry.Secure
	since     time.Time
	unwatched chan struct{} // closed when watch has returned
}

var (
	errEnded  = errors.New("no connections to the relay are opened any more") // the keeper has ended
	errSilent = errors.New("the relay does not answer")
	errSlow   = errors.New("the relay answers others, and not this")
)

// New returns an empty pool, to be filled by Keep.
func New(open func(context.Context) (*carry.Secure, error), changed func(error), turns Turns) *Pool {
	p := &Pool{
		Open: open, Changed: changed, least: stored, wakeups: make(chan struct{}, 1), calls: make(chan struct{}, maxCallers), turns: turns,
	}
	p.alive, p.declareSilent = context.WithCancel(context.Background())
	return p
}

// Heard returns a context that ends when the relay goes silent, so that callers stop waiting for its answer. A relay
// that refuses is not silent, and may still answer authenticated connections.
func (p *Pool) Heard() context.Context {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.alive
}

// Least sets the minimum size. With 0 the reachability of an unused relay is unknown.
func (p *Pool) Least(n int) {
	p.mutex.Lock()
	p.least = n
	p.mutex.Unlock()
	p.wake()
}

// Stored returns the number of idle connections, and why the relay is unreachable, if known.
func (p *Pool) Stored() (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.idle), p.down
}

// Take returns an open connection or the reason why there is none. It fails at once if the relay is known to be
// unreachable, otherwise after a second without a sign of life. If an opening has just failed, idle connections may be
// dead, too.
func (p *Pool) Take(ctx context.Context) (*carry.Secure, error) {
	defer p.wake()
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
			end, err := p.open(ctx, callerTimeout)
			if tried++; err == nil || tried == attempts || errors.Is(err, errSlow) || ctx.Err() != nil {
				return end, err
			}
		default:
			select {
			case p.calls <- struct{}{}:
				defer func() { <-p.calls }()
				called = true // meanwhile one may be free, or the relay down
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// stored returns the youngest idle connection, or nil; the error says why the relay is unreachable.
func (p *Pool) stored() (*idleConn, error) {
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
	p.size = max(p.size, 1) // opening a replacement checks that the relay still answers
	return one, nil
}

// open opens a connection. Its time limit starts at the relay's last sign of life: under load, or over a full or lossy
// uplink, one handshake may take long while others succeed.
func (p *Pool) open(parent context.Context, within time.Duration) (*carry.Secure, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-parent.Done():
		return nil, parent.Err()
	}
	ctx, cancel := context.WithTimeout(parent, openTimeout)
	defer cancel()
	began := time.Now()
	go p.cancelIfSilent(ctx, began, within, cancel)
	end, err := p.Open(ctx)
	switch {
	case err == nil:
	case parent.Err() != nil:
		return nil, parent.Err() // says nothing about the relay
	case ctx.Err() != nil && p.heardSince(began):
		err = fmt.Errorf("%w, within %v", errSlow, time.Since(began).Round(time.Millisecond))
	case ctx.Err() != nil:
		err = fmt.Errorf("%w within %v", errSilent, within)
	}
	p.recordResult(began, err)
	return end, err
}

// cancelIfSilent cancels an opening after some time without a sign of life.
func (p *Pool) cancelIfSilent(ctx context.Context, began time.Time, within time.Duration, giveUp func()) {
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

// Answered records a sign of life on a connection in use.
func (p *Pool) Answered() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answered = time.Now()
}

// recordResult records the reachability. A failed opening does not count if the relay has answered since it began.
func (p *Pool) recordResult(began time.Time, err error) {
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
	if err == nil && p.alive.Err() != nil {
		p.alive, p.declareSilent = context.WithCancel(context.Background())
	}
	p.mutex.Unlock()
	if changed && p.Changed != nil && !errors.Is(err, errEnded) {
		p.Changed(err)
	}
}

func (p *Pool) wake() {
	select {
	case p.wakeups <- struct{}{}:
	default:
	}
}

// Keep fills the pool until the context ends.
func (p *Pool) Keep(ctx context.Context) {
	var openings sync.WaitGroup
	ticks := time.NewTicker(retryInterval)
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
		if p.isUnused() {
			ticked = nil
		}
		select {
		case <-p.wakeups:
		case <-ticked:
		case <-ctx.Done():
		}
	}
	openings.Wait()
	p.recordResult(time.Now(), errEnded)
	p.retire(time.Now().Add(2 * idleTimeout))
}

// isUnused tells whether the pool is empty and without demand. Then it forgets an old failure.
func (p *Pool) isUnused() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.target(time.Now()) > 0 || len(p.idle) > 0 || p.opening > 0 {
		return false
	}
	p.down = nil
	return true
}

// target returns the intended size. The caller holds the mutex.
func (p *Pool) target(now time.Time) int {
	if now.Sub(p.used) > demandTimeout {
		p.size = 0
	}
	return max(p.least, p.size)
}

// wanted returns the number of openings to start. For an unreachable relay that is one, as a probe. If connections are
// closed just after their opening, by the relay or a middlebox, it waits before the next.
func (p *Pool) wanted() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Since(p.closedEarlyAt) < retryInterval {
		return 0
	}
	n := min(p.target(time.Now())-len(p.idle), maxKeeperOpenings) - p.opening
	if p.down != nil {
		n = min(n, 1-p.opening)
	}
	n = max(n, 0)
	p.opening += n
	return n
}

func (p *Pool) fill(ctx context.Context) {
	end, err := p.open(ctx, keeperTimeout)
	p.mutex.Lock()
	p.opening--
	if errors.Is(err, errSilent) && ctx.Err() == nil {
		p.declareSilent()
	}
	if err == nil {
		one := &idleConn{end, time.Now(), make(chan struct{})}
		p.idle = append(p.idle, one)
		go p.watch(one)
	}
	p.mutex.Unlock()
	if err == nil {
		p.wake() // there may be more to open
	}
}

// watch waits for the end of an idle connection: without a request the relay sends nothing else. Opening another one
// shows whether the relay is reachable.
func (p *Pool) watch(one *idleConn) {
	defer close(one.unwatched)
	if !one.end.AwaitData() {
		return // it was taken
	}
	p.mutex.Lock()
	if at := slices.Index(p.idle, one); at >= 0 {
		p.idle = slices.Delete(p.idle, at, at+1)
	}
	if time.Since(one.since) < retryInterval {
		p.closedEarlyAt = time.Now()
	}
	p.mutex.Unlock()
	one.end.Reset()
	p.wake()
}

// claim ends the watch, and returns false if the connection has ended.
func (w *idleConn) claim() bool {
	w.end.SetReadDeadline(time.Unix(1, 0))
	<-w.unwatched
	return w.end.SetReadDeadline(time.Time{}) == nil
}

func (p *Pool) retire(now time.Time) {
	p.mutex.Lock()
	var old []*idleConn
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) > idleTimeout {
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
