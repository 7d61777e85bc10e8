// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"sync/atomic"
	"time"

	"bicast/relay/internal/carry"
	"bicast/relay/internal/pool"
)

// Relay is one that terminals' connections may go by. It lives on while plans come and go.
type Relay struct {
	Name    string
	At      netip.AddrPort
	KeySum  [sha256.Size]byte // of the public key that its certificate is for
	Changed func(error)       // whether a terminal reaches it, when that is another thing than before; may be nil

	ctx         context.Context
	cancel      context.CancelFunc
	turns       pool.Turns // of those who open connections to it
	draining    atomic.Bool
	connections atomic.Int64
	setup       atomic.Int64 // in ns, of the last connection that was opened; 0: none was
	usual       atomic.Int64 // likewise, of the last eight or so
	opened      atomic.Int64 // when, in ns since 1970
}

// KeepAlive returns why keepalive does not bound how long a connection waits for a relay that has gone without a word; nil: it does.
func KeepAlive() error { return pool.KeepAlive() }

// Begin has connections go by it until End.
func (r *Relay) Begin(ctx context.Context) {
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.turns = pool.NewTurns()
}

// End cuts them.
func (r *Relay) End() { r.cancel() }

// Drain has nothing new go by it, or lets it again.
func (r *Relay) Drain(draining bool) { r.draining.Store(draining) }

// Draining tells whether nothing new goes by it.
func (r *Relay) Draining() bool { return r.draining.Load() }

// Connections go by it now.
func (r *Relay) Connections() int { return int(r.connections.Load()) }

// Setup is how long TCP and TLS took of the last connection that was opened, and when that was.
func (r *Relay) Setup() (took time.Duration, at time.Time) {
	return time.Duration(r.setup.Load()), time.Unix(0, r.opened.Load())
}

func (r *Relay) timed(open func(context.Context) (*carry.Secure, error)) func(context.Context) (*carry.Secure, error) {
	return func(ctx context.Context) (*carry.Secure, error) {
		began := time.Now()
		end, err := open(ctx)
		if err == nil {
			took := int64(time.Since(began))
			r.setup.Store(took)
			if usual := r.usual.Load(); usual != 0 {
				took = usual + (took-usual)/8
			}
			r.usual.Store(took)
			r.opened.Store(time.Now().UnixNano())
		}
		return end, err
	}
}
