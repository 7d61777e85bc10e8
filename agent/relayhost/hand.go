// Package relayhost runs a relay on this host (docs/relay.md), as a controller orders.
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
	"bicast/relay/reach"
	"bicast/relay/server"
)

const tendEvery = time.Second

// ErrNoRelay is why a terminal and a gateway are none.
var ErrNoRelay = errors.New("a relay stands in the Internet: run an agent of role relay there")

// Hand relays as a controller ordered.
type Hand struct {
	within   func(func() error) error // runs where gateways come to
	dial     reach.Within             // runs where servers are reached from, and waits for them
	identity func() (trust.Identity, error)
	log      *slog.Logger
	busy     busy

	relays atomic.Bool // it is a relay

	mutex   sync.Mutex
	ended   bool
	wanted  wanted        // while it stands
	stands  *stand        // nil: it is no relay
	trouble error         // why its door is not open
	passes  *onward.Place // nil: nothing is passed on to other relays
	leads   bool          // what is passed on is as wanted, whatever a killed agent left
	unled   string        // why it was not, as it was said last
}

// NewHand has nothing to do yet.
func NewHand(within func(func() error) error, dial reach.Within, identity func() (trust.Identity, error), log *slog.Logger) *Hand {
	return &Hand{within: within, dial: dial, identity: identity, log: log}
}

// Order takes the place of the order before; one that cannot be carried out changes nothing. Where nothing can be passed on to
// other relays, it is a relay all the same.
func (h *Hand) Order(order *agentv1.Relay) (string, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.ended {
		return "", errors.New("this agent is ending")
	}
	if order.GetPort() == 0 {
		h.end()
		return "it is no relay", h.lead(nil) // what a killed agent may have left, too
	}
	wanted, err := h.read(order)
	if err != nil {
		return "", err
	}
	unled := h.lead(wanted.onward)
	if h.stands == nil {
		if h.stands, err = newStand(h.within, h.dial, h.log); err != nil {
			return "", err
		}
	}
	h.wanted = wanted
	h.relays.Store(true)
	h.stands.obey(wanted)
	h.open()
	said := fmt.Sprintf("a relay at port %d for %s, to ports %v, sending with %s",
		wanted.port, plural.Of(len(wanted.guests), "gateway"), wanted.reaches, wanted.congestion)
	if h.trouble != nil {
		said = fmt.Sprintf("%s: not yet: %v", said, h.trouble)
	}
	return said, unled
}

// Run sees to the relay until the context ends, and then ends it.
func (h *Hand) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, func() {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		if h.stands != nil {
			h.open()
			h.tend(time.Now())
		}
	})
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.end()
	h.ended = true
}

// open is tried until it is.
func (h *Hand) open() {
	err := h.stands.open(h.wanted)
	if err != nil && (h.trouble == nil || h.trouble.Error() != err.Error()) {
		h.log.Warn("the relay's door cannot be opened", "because", err)
	}
	h.trouble = err
}

// lead passes on what is to go to other relays.
func (h *Hand) lead(ways []onward.Way) error {
	if h.leads && slices.Equal(ways, h.wanted.onward) {
		return nil
	}
	err := h.within(func() (err error) {
		switch {
		case len(ways) == 0 && h.passes == nil:
			_, err = onward.Release()
			return err
		case len(ways) == 0:
			err, h.passes = h.passes.Close(), nil
			return err
		case h.passes == nil:
			if h.passes, err = onward.Claim(); err != nil {
				return err
			}
		}
		return h.passes.Lead(ways)
	})
	h.leads, h.wanted.onward = err == nil, ways
	return err
}

// tend sees to what is passed on: what could not be done is tried again, and what somebody took away is made again.
func (h *Hand) tend(now time.Time) {
	err := h.lead(h.wanted.onward)
	if err == nil && h.passes != nil {
		guests, lost := h.stands.server.Lately(now), false
		err = h.within(func() (err error) {
			if lost, err = h.passes.Tend(); err != nil {
				return err
			}
			return h.passes.Admit(guests)
		})
		h.leads = err == nil
		if lost {
			h.log.Warn("what passes subflows on to other relays had gone from nft, and is made again", "made", err == nil)
		}
	}
	if said := fmt.Sprint(err); err != nil && said != h.unled {
		h.log.Warn("not all is passed on to other relays, and is tried again", "because", err)
	}
	h.unled = fmt.Sprint(err)
}

func (h *Hand) end() {
	if h.stands == nil {
		return
	}
	h.stands.end()
	h.stands, h.trouble = nil, nil
	h.relays.Store(false)
	if err := h.lead(nil); err != nil {
		h.log.Error("what was passed on to other relays is not all taken away", "because", err)
	}
}

// Stands tells whether it is a relay. It waits for nobody.
func (h *Hand) Stands() bool { return h.relays.Load() }

// Report is what the contract's has of relaying; nil: it is no relay.
func (h *Hand) Report() *agentv1.Relaying {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.stands == nil {
		return nil
	}
	t := h.stands.server.Totals()
	return &agentv1.Relaying{
		Because: h.because(time.Now()), Draining: h.wanted.draining, Congestion: h.wanted.congestion,
		Connections: uint32(t.Connections), Waiting: uint32(t.Waiting), Carried: t.Carried,
		Refused: t.Refused, Failed: t.Failed, Strangers: t.Strangers, BytesUp: t.Up, BytesDown: t.Down,
		OverheadUs: uint32(min(t.Overhead.Microseconds(), 1<<32-1)), BusyPercent: h.busy.percent(clock.Monotonic()),
	}
}

// because is why nobody can come in; empty: everybody can.
func (h *Hand) because(now time.Time) string {
	if h.trouble != nil {
		return h.trouble.Error()
	}
	if until := h.wanted.shows.Leaf.NotAfter; now.After(until) {
		return fmt.Sprintf("its certificate was good until %v: no gateway takes it any more; order it anew with another one", until.UTC())
	}
	return ""
}

// order is how the parts below serve.
func (w wanted) order(stand *stand) server.Order {
	return server.Order{
		Shows: w.shows, Authority: w.identity.Authority(), Guests: w.guests, Draining: w.draining,
		Reach: &reach.Reach{
			Ports: w.reaches, Resolve: stand.resolve, Within: stand.dial, Roads: stand.roads, Congestion: w.congestion,
		},
	}
}
