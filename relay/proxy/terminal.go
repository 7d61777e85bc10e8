// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"bicast/relay/internal/carry"
	"bicast/relay/internal/pool"
)

// FullStore is how many connections to a relay are in store at most.
const FullStore = pool.Most

// Terminal is one whose connections are taken. It lives on while plans come and go.
type Terminal struct {
	// Direct connects without a relay, for the terminal at an address.
	Direct func(ctx context.Context, terminal netip.Addr, to netip.AddrPort) (*net.TCPConn, error)
	// Dial connects to a relay for it, with what the dialer has.
	Dial func(ctx context.Context, dialer net.Dialer, relay *Relay) (*net.TCPConn, error)
	// TLS is what it shows to a relay, and expects there, just then.
	TLS func(*Relay) (*tls.Config, error)
	// Join is called with each connection that has been opened; false: another one may do better. nil: none may.
	Join func(*Relay, net.Conn) bool

	ctx    context.Context
	cancel context.CancelFunc
	counts counts

	mutex sync.Mutex
	ended bool
	by    map[*Relay]*road
	kept  sync.WaitGroup
}

type counts struct {
	connections            atomic.Int64
	relayed, direct, reset atomic.Uint64
	up, down               atomic.Uint64
}

// Totals are what became of a terminal's connections.
type Totals struct {
	Connections            int // now
	Relayed, Direct, Reset uint64
	Up, Down               uint64 // bytes
}

// Totals are as they are now.
func (t *Terminal) Totals() Totals {
	c := &t.counts
	return Totals{
		Connections: int(c.connections.Load()), Relayed: c.relayed.Load(), Direct: c.direct.Load(), Reset: c.reset.Load(),
		Up: c.up.Load(), Down: c.down.Load(),
	}
}

// Begin has it taken until End.
func (t *Terminal) Begin(ctx context.Context) {
	t.by = map[*Relay]*road{}
	t.ctx, t.cancel = context.WithCancel(ctx)
}

// End cuts its connections, and lets go of those in store.
func (t *Terminal) End() {
	t.mutex.Lock()
	t.ended = true
	t.mutex.Unlock()
	t.cancel()
	t.kept.Wait()
}

// Only lets go of what is in store for relays that are not among these, or are draining. What is carried goes on.
func (t *Terminal) Only(relays []*Relay) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for relay, road := range t.by {
		if relay.Draining() || !slices.Contains(relays, relay) {
			road.rest()
			delete(t.by, relay)
		}
	}
}

// Await keeps so many connections to a relay in store, also where none is used: with one it is known whether the relay can be
// reached.
func (t *Terminal) Await(relay *Relay, least int) { t.to(relay).pool.Least(least) }

// Stored is how many connections to a relay are in store, and why it cannot be reached, where that is known.
func (t *Terminal) Stored(relay *Relay) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if one := t.by[relay]; one != nil {
		return one.pool.Stored()
	}
	return 0, nil
}

// to is the road to a relay.
func (t *Terminal) to(relay *Relay) *road {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	one := t.by[relay]
	if one != nil {
		return one
	}
	ctx, rest := context.WithCancel(t.ctx)
	one = &road{relay: relay, rest: rest, pool: pool.New(relay.timed(t.opening(relay)), relay.Changed, relay.turns)}
	one.pool.Least(0)
	t.by[relay] = one
	if t.ended {
		return one
	}
	t.kept.Add(1)
	go func() {
		defer t.kept.Done()
		one.pool.Keep(ctx)
	}()
	return one
}

// opening opens connections to a relay.
func (t *Terminal) opening(relay *Relay) func(context.Context) (*carry.Secure, error) {
	open := pool.Opening(
		func(ctx context.Context) (*net.TCPConn, error) { return t.Dial(ctx, *pool.Dialer(), relay) },
		func() (*tls.Config, error) { return t.TLS(relay) },
	)
	return func(ctx context.Context) (*carry.Secure, error) {
		end, err := open(ctx)
		if err != nil || t.Join == nil || t.Join(relay, end.NetConn()) {
			return end, err
		}
		another, err := open(ctx)
		if err != nil {
			return end, nil
		}
		end.Reset()
		t.Join(relay, another.NetConn())
		return another, nil
	}
}

// road is one terminal's to one relay.
type road struct {
	relay *Relay
	pool  *pool.Pool
	rest  context.CancelFunc // nothing is kept in store any more
	live  atomic.Int64
}

func (r *road) take(ctx context.Context) (*carry.Secure, error) { return r.pool.Take(ctx) }

func (r *road) begin() {
	r.live.Add(1)
	r.relay.connections.Add(1)
}

func (r *road) end() {
	r.live.Add(-1)
	r.relay.connections.Add(-1)
}
