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

// Relay is a relay for terminals' connections. It outlives plans.
type Relay struct {
	Name    string
	At      netip.AddrPort
	KeySum  [sha256.Size]byte // of its certificate's public key
	Changed func(error)       // called when its reachability changes; may be nil

	ctx         context.Context
	cancel      context.CancelFunc
	turns       pool.Turns // limits simultaneous openings
	draining    atomic.Bool
	connections atomic.Int64
	setup       atomic.Int64 // in ns, of the last opening; 0: none
	usual       atomic.Int64 // in ns, smoothed over about eight openings
	opened      atomic.Int64 // time of the last opening, in ns since 1970
}

// KeepAlive returns why keepalive cannot detect a relay that vanished, or nil.
func KeepAlive() error { return pool.KeepAlive() }

// Begin enables the relay until End.
func (r *Relay) Begin(ctx context.Context) {
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.turns = pool.NewTurns()
}

// End resets its connections.
func (r *Relay) End() { r.cancel() }

// Drain stops or resumes new connections over the relay.
func (r *Relay) Drain(draining bool) { r.draining.Store(draining) }

// Draining tells whether the relay takes no new connections.
func (r *Relay) Draining() bool { return r.draining.Load() }

// Connections returns the number of current connections.
func (r *Relay) Connections() int { return int(r.connections.Load()) }

// Setup returns how long TCP and TLS took for the last opening, and when that was.
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
