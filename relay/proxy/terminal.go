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

// FullStore is the maximum number of idle connections to a relay.
const FullStore = pool.Most

// Terminal is a terminal whose connections are intercepted. It outlives plans.
type Terminal struct {
	// Direct connects without a relay, for the terminal at an address.
	Direct func(ctx context.Context, terminal netip.Addr, to netip.AddrPort) (*net.TCPConn, error)
	// Dial connects to a relay for the terminal, with the dialer's settings.
	Dial func(ctx context.Context, dialer net.Dialer, relay *Relay) (*net.TCPConn, error)
	// TLS returns the current configuration towards a relay.
	TLS func(*Relay) (*tls.Config, error)
	// Join is called with each new connection; false asks for one replacement. May be nil.
	Join func(*Relay, net.Conn) bool

	ctx    context.Context
	cancel context.CancelFunc
	counts counts

	mutex sync.Mutex
	ended bool
	by    map[*Relay]*relayPath
	kept  sync.WaitGroup
}

type counts struct {
	connections            atomic.Int64
	relayed, direct, reset atomic.Uint64
	up, down               atomic.Uint64
}

// Totals are the statistics of a terminal.
type Totals struct {
	Connections            int // current
	Relayed, Direct, Reset uint64
	Up, Down               uint64 // bytes
}

// Totals returns the current statistics.
func (t *Terminal) Totals() Totals {
	c := &t.counts
	return Totals{
		Connections: int(c.connections.Load()), Relayed: c.relayed.Load(), Direct: c.direct.Load(), Reset: c.reset.Load(),
		Up: c.up.Load(), Down: c.down.Load(),
	}
}

// Begin enables the terminal until End.
func (t *Terminal) Begin(ctx context.Context) {
	t.by = map[*Relay]*relayPath{}
	t.ctx, t.cancel = context.WithCancel(ctx)
}

// End resets its connections and closes idle ones.
func (t *Terminal) End() {
	t.mutex.Lock()
	t.ended = true
	t.mutex.Unlock()
	t.cancel()
	t.kept.Wait()
}

// Only closes idle connections to relays that are not listed or are draining. Connections in use continue.
func (t *Terminal) Only(relays []*Relay) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for relay, relayPath := range t.by {
		if relay.Draining() || !slices.Contains(relays, relay) {
			relayPath.rest()
			delete(t.by, relay)
		}
	}
}

// Await keeps this many idle connections to a relay even without demand. One is enough to know whether the relay is
// reachable.
func (t *Terminal) Await(relay *Relay, least int) { t.to(relay).pool.Least(least) }

// Stored returns the number of idle connections to a relay, and why it is unreachable, if known.
func (t *Terminal) Stored(relay *Relay) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if one := t.by[relay]; one != nil {
		return one.pool.Stored()
	}
	return 0, nil
}

// to returns the path to a relay.
func (t *Terminal) to(relay *Relay) *relayPath {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	one := t.by[relay]
	if one != nil {
		return one
	}
	ctx, rest := context.WithCancel(t.ctx)
	one = &relayPath{relay: relay, rest: rest, pool: pool.New(relay.timed(t.opening(relay)), relay.Changed, relay.turns)}
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

// opening returns a function that opens connections to a relay.
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

// relayPath connects one terminal with one relay.
type relayPath struct {
	relay *Relay
	pool  *pool.Pool
	rest  context.CancelFunc // stops keeping idle connections
	live  atomic.Int64
}

func (r *relayPath) take(ctx context.Context) (*carry.Secure, error) { return r.pool.Take(ctx) }

func (r *relayPath) begin() {
	r.live.Add(1)
	r.relay.connections.Add(1)
}

func (r *relayPath) end() {
	r.live.Add(-1)
	r.relay.connections.Add(-1)
}
