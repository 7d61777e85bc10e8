// SPDX-License-Identifier: Apache-2.0

// Package relayhost runs a relay on this host (docs/how-to/relay.md).
//
//	Relay ─▶ a listener for gateways, and plain TCP with the servers that they ask for ─▶ RelayReport
//
// A new order keeps connections, except those of gateways that it does not name. The agent reports a port that another
// process uses, and retries. All state ends with the agent.
package relayhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/relay/onward"
	"bicast/relay/server"
)

const tendEvery = time.Second

// ErrNoRelay is the error of terminals and gateways, which do not relay.
var ErrNoRelay = errors.New("only an agent of role relay is a relay: run one on a host on the Internet")

// Executor carries out the controller's orders to relay.
type Executor struct {
	within    func(func() error) error                  // runs in the namespace where gateways connect
	dial      func(context.Context, func() error) error // runs in the namespace that connects to servers
	identity  func() (trust.Identity, error)
	log       *slog.Logger
	loadMeter loadMeter

	running atomic.Bool // a relay is running

	mutex      sync.Mutex
	ended      bool
	spec       spec              // valid if relay is not nil
	relay      *relay            // nil: not ordered
	failure    error             // why the relay does not listen
	forwarder  *onward.Forwarder // nil: no forwarding to other relays
	forwarding bool              // forwarding is as ordered
	logged     string            // the last logged failure of forwarding
}

// NewExecutor returns an executor without an order.
func NewExecutor(
	within func(func() error) error, dial func(context.Context, func() error) error, identity func() (trust.Identity, error), log *slog.Logger,
) *Executor {
	return &Executor{within: within, dial: dial, identity: identity, log: log}
}

// Order replaces the previous order. An invalid order changes nothing. The relay runs even if forwarding to other relays
// fails.
func (e *Executor) Order(order *agentv1.Relay) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.ended {
		return "", errors.New("the agent is ending and accepts no orders")
	}
	if order.GetPort() == 0 {
		e.end()
		return "this host is no relay", e.forward(nil) // also removes the remains of a killed agent
	}
	spec, err := e.parseOrder(order)
	if err != nil {
		return "", err
	}
	unled := e.forward(spec.onward)
	if e.relay == nil {
		opened, err := server.Open(e.within, e.dial, e.log)
		if err != nil {
			return "", err
		}
		e.relay = newRelay(e.within, opened)
	}
	e.spec = spec
	e.running.Store(true)
	e.relay.server.Obey(spec.order())
	e.open()
	said := fmt.Sprintf("relaying at port %d for %s, to ports %v, with congestion control %s",
		spec.port, plural.Of(len(spec.guests), "gateway"), spec.reaches, spec.congestion)
	if e.failure != nil {
		said = fmt.Sprintf("%s; not yet in force: %v", said, e.failure)
	}
	return said, unled
}

// Run maintains the relay until the context ends, and then ends it.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, func() {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		if e.relay != nil {
			e.open()
			e.tend(time.Now())
		}
	})
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.end()
	e.ended = true
}

// open listens for gateways, if the relay does not yet.
func (e *Executor) open() {
	err := e.relay.open(e.spec)
	if err != nil && (e.failure == nil || e.failure.Error() != err.Error()) {
		e.log.Warn("cannot listen for gateways", "reason", err)
	}
	e.failure = err
}

// forward sets up the nft rules that forward subflows to other relays.
func (e *Executor) forward(forwards []onward.PortForward) error {
	if e.forwarding && slices.Equal(forwards, e.spec.onward) {
		return nil
	}
	err := e.within(func() (err error) {
		switch {
		case len(forwards) == 0 && e.forwarder == nil:
			_, err = onward.Release()
			return err
		case len(forwards) == 0:
			err, e.forwarder = e.forwarder.Close(), nil
			return err
		case e.forwarder == nil:
			if e.forwarder, err = onward.Claim(); err != nil {
				return err
			}
		}
		return e.forwarder.Replace(forwards)
	})
	e.forwarding, e.spec.onward = err == nil, forwards
	return err
}

// tend retries failed forwarding, and restores rules that another program removed.
func (e *Executor) tend(now time.Time) {
	err := e.forward(e.spec.onward)
	if err == nil && e.forwarder != nil {
		guests, lost := e.relay.server.RecentNetworks(now), false
		err = e.within(func() (err error) {
			if lost, err = e.forwarder.Tend(); err != nil {
				return err
			}
			return e.forwarder.Admit(guests)
		})
		e.forwarding = err == nil
		if lost {
			e.log.Warn("restored the nft rules that forward subflows to other relays, which another program removed", "made", err == nil)
		}
	}
	if said := fmt.Sprint(err); err != nil && said != e.logged {
		e.log.Warn("cannot forward all subflows to other relays; the agent retries", "reason", err)
	}
	e.logged = fmt.Sprint(err)
}

func (e *Executor) end() {
	if e.relay == nil {
		return
	}
	e.relay.end()
	e.relay, e.failure = nil, nil
	e.running.Store(false)
	if err := e.forward(nil); err != nil {
		e.log.Error("cannot remove the forwarding of subflows to other relays", "reason", err)
	}
}

// Stands reports whether a relay is running. It does not block.
func (e *Executor) Stands() bool { return e.running.Load() }

// Report returns nil without an order.
func (e *Executor) Report() *agentv1.RelayReport {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.relay == nil {
		return nil
	}
	t := e.relay.server.Totals()
	return &agentv1.RelayReport{
		Reason: e.reason(time.Now()), Draining: e.spec.draining, Congestion: e.spec.congestion,
		Connections: uint32(t.Connections), Waiting: uint32(t.Waiting), Carried: t.Carried,
		Refused: t.Refused, Failed: t.Failed, Unauthenticated: t.Unauthenticated, BytesUp: t.Up, BytesDown: t.Down,
		OverheadUs: uint32(min(t.Overhead.Microseconds(), 1<<32-1)), BusyPercent: e.loadMeter.percent(clock.Monotonic()),
	}
}

// reason returns why no gateway can connect, or "".
func (e *Executor) reason(now time.Time) string {
	if e.failure != nil {
		return e.failure.Error()
	}
	if until := e.spec.shows.Leaf.NotAfter; now.After(until) {
		return fmt.Sprintf("the relay's certificate expired at %v and gateways refuse it: order the relay again with a new one", until.UTC())
	}
	return ""
}

// order converts the order for package server.
func (w spec) order() server.Order {
	return server.Order{
		Shows: w.shows, Authority: w.identity.Authority(), Guests: w.guests, Draining: w.draining,
		Ports: w.reaches, Congestion: w.congestion,
	}
}
