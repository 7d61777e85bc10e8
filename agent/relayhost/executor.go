// SPDX-License-Identifier: Apache-2.0

// Package relayhost runs a relay on this host (docs/how-to/relay.md), as a controller orders.
//
//	Relay ─▶ a listener for gateways, and plain TCP with the servers that they ask for ─▶ Relaying
//
// An order takes the place of the one before while connections go on; those of gateways that it does not name are cut. A port
// that somebody else has is reported, and tried again. Nothing of it outlives the agent.
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

// ErrNoRelay is why a terminal and a gateway are none.
var ErrNoRelay = errors.New("a relay stands in the Internet: run an agent of role relay there")

// Executor relays as a controller ordered.
type Executor struct {
	within   func(func() error) error                  // runs where gateways come to
	dial     func(context.Context, func() error) error // runs where servers are reached from, and waits for them
	identity func() (trust.Identity, error)
	log      *slog.Logger
	busy     busy

	relays atomic.Bool // it is a relay

	mutex   sync.Mutex
	ended   bool
	wanted  wanted        // while it stands
	relay   *relay        // nil: it is no relay
	trouble error         // why its door is not open
	passes  *onward.Place // nil: nothing is passed on to other relays
	leads   bool          // what is passed on is as wanted, whatever a killed agent left
	unled   string        // why it was not, as it was said last
}

// NewExecutor has nothing to do yet.
func NewExecutor(
	within func(func() error) error, dial func(context.Context, func() error) error, identity func() (trust.Identity, error), log *slog.Logger,
) *Executor {
	return &Executor{within: within, dial: dial, identity: identity, log: log}
}

// Order takes the place of the order before; one that cannot be carried out changes nothing. Where nothing can be passed on to
// other relays, it is a relay all the same.
func (e *Executor) Order(order *agentv1.Relay) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.ended {
		return "", errors.New("this agent is ending")
	}
	if order.GetPort() == 0 {
		e.end()
		return "it is no relay", e.lead(nil) // what a killed agent may have left, too
	}
	wanted, err := e.read(order)
	if err != nil {
		return "", err
	}
	unled := e.lead(wanted.onward)
	if e.relay == nil {
		opened, err := server.Open(e.within, e.dial, e.log)
		if err != nil {
			return "", err
		}
		e.relay = newRelay(e.within, opened)
	}
	e.wanted = wanted
	e.relays.Store(true)
	e.relay.server.Obey(wanted.order())
	e.open()
	said := fmt.Sprintf("a relay at port %d for %s, to ports %v, sending with %s",
		wanted.port, plural.Of(len(wanted.guests), "gateway"), wanted.reaches, wanted.congestion)
	if e.trouble != nil {
		said = fmt.Sprintf("%s: not yet: %v", said, e.trouble)
	}
	return said, unled
}

// Run sees to the relay until the context ends, and then ends it.
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

// open is tried until it is.
func (e *Executor) open() {
	err := e.relay.open(e.wanted)
	if err != nil && (e.trouble == nil || e.trouble.Error() != err.Error()) {
		e.log.Warn("the relay's door cannot be opened", "reason", err)
	}
	e.trouble = err
}

// lead passes on what is to go to other relays.
func (e *Executor) lead(ways []onward.Way) error {
	if e.leads && slices.Equal(ways, e.wanted.onward) {
		return nil
	}
	err := e.within(func() (err error) {
		switch {
		case len(ways) == 0 && e.passes == nil:
			_, err = onward.Release()
			return err
		case len(ways) == 0:
			err, e.passes = e.passes.Close(), nil
			return err
		case e.passes == nil:
			if e.passes, err = onward.Claim(); err != nil {
				return err
			}
		}
		return e.passes.Lead(ways)
	})
	e.leads, e.wanted.onward = err == nil, ways
	return err
}

// tend sees to what is passed on: what could not be done is tried again, and what somebody took away is made again.
func (e *Executor) tend(now time.Time) {
	err := e.lead(e.wanted.onward)
	if err == nil && e.passes != nil {
		guests, lost := e.relay.server.RecentNetworks(now), false
		err = e.within(func() (err error) {
			if lost, err = e.passes.Tend(); err != nil {
				return err
			}
			return e.passes.Admit(guests)
		})
		e.leads = err == nil
		if lost {
			e.log.Warn("what passes subflows on to other relays had gone from nft, and is made again", "made", err == nil)
		}
	}
	if said := fmt.Sprint(err); err != nil && said != e.unled {
		e.log.Warn("not all is passed on to other relays, and is tried again", "reason", err)
	}
	e.unled = fmt.Sprint(err)
}

func (e *Executor) end() {
	if e.relay == nil {
		return
	}
	e.relay.end()
	e.relay, e.trouble = nil, nil
	e.relays.Store(false)
	if err := e.lead(nil); err != nil {
		e.log.Error("what was passed on to other relays is not all taken away", "reason", err)
	}
}

// Stands tells whether it is a relay. It waits for nobody.
func (e *Executor) Stands() bool { return e.relays.Load() }

// Report is what the contract's has of relaying; nil: it is no relay.
func (e *Executor) Report() *agentv1.Relaying {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.relay == nil {
		return nil
	}
	t := e.relay.server.Totals()
	return &agentv1.Relaying{
		Reason: e.reason(time.Now()), Draining: e.wanted.draining, Congestion: e.wanted.congestion,
		Connections: uint32(t.Connections), Waiting: uint32(t.Waiting), Carried: t.Carried,
		Refused: t.Refused, Failed: t.Failed, Strangers: t.Strangers, BytesUp: t.Up, BytesDown: t.Down,
		OverheadUs: uint32(min(t.Overhead.Microseconds(), 1<<32-1)), BusyPercent: e.busy.percent(clock.Monotonic()),
	}
}

// because is why nobody can come in; empty: everybody can.
func (e *Executor) reason(now time.Time) string {
	if e.trouble != nil {
		return e.trouble.Error()
	}
	if until := e.wanted.shows.Leaf.NotAfter; now.After(until) {
		return fmt.Sprintf("its certificate was good until %v: no gateway takes it any more; order it anew with another one", until.UTC())
	}
	return ""
}

// order is how the parts below serve.
func (w wanted) order() server.Order {
	return server.Order{
		Shows: w.shows, Authority: w.identity.Authority(), Guests: w.guests, Draining: w.draining,
		Ports: w.reaches, Congestion: w.congestion,
	}
}
