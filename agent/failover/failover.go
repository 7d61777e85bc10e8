// SPDX-License-Identifier: Apache-2.0

// Package failover leaves a dead path as the controller armed in advance, sooner than a report could arrive and an order return.
// It works on without a controller, until its lease is over.
package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"bicast/agent/mptcpctl"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/mptcp"
)

// The bounds of what can be armed.
const (
	shortestLook  = 20 * time.Millisecond
	shortestWait  = 2 * time.Millisecond
	shortestStall = 20 * time.Millisecond
	longestStall  = 60 * time.Second
	longestLease  = 24 * time.Hour
	mostArmed     = 512       // one a terminal: those of a relay for 250, and as many again whose leases have not yet run out
	mostUntold    = mostArmed // a path that dies may be everybody's
	fireWithin    = 5 * time.Second
)

// Failovers are those that are armed on this host. While there are none they cost nothing.
type Failovers struct {
	role   agentv1.Role
	look   func() ([]mptcp.Connection, error)
	prefer func(context.Context, mptcpctl.Preference) (mptcpctl.Outcome, error)
	log    *slog.Logger
	clocks clocks

	mutex   sync.Mutex
	armed   map[string]*watch
	due     time.Duration // of CLOCK_MONOTONIC: when to look again; 0 while nothing is armed
	changed chan struct{} // something was armed
	fired   chan *agentv1.Fired
}

// The two times that matter: see the package clock.
type clocks struct {
	monotonic func() time.Duration
	boot      func() time.Duration
}

// New is an executor with nothing armed.
func New(
	role agentv1.Role, look func() ([]mptcp.Connection, error),
	prefer func(context.Context, mptcpctl.Preference) (mptcpctl.Outcome, error), log *slog.Logger,
) *Failovers {
	return &Failovers{
		role: role, look: look, prefer: prefer, log: log,
		clocks: clocks{clock.Monotonic, clock.Boot},
		armed:  map[string]*watch{}, changed: make(chan struct{}, 1), fired: make(chan *agentv1.Fired, mostUntold),
	}
}

// Fired tells of those that fired. When nobody listens the oldest are forgotten.
func (r *Failovers) Fired() <-chan *agentv1.Fired { return r.fired }

// Arm arms a reflex, or says why it makes no sense.
func (r *Failovers) Arm(order *agentv1.Arm) (string, error) {
	made, err := r.parse(order)
	if err != nil {
		return "", err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before, again := r.armed[order.GetName()]
	if !again && len(r.armed) == mostArmed {
		return "", fmt.Errorf("%d reflexes are armed already, and more are refused: disarm one", mostArmed)
	}
	if again && slices.Equal(before.watched, made.watched) { // a stall that has begun goes on
		made.progress, made.flows = before.progress, before.flows
	}
	r.armed[order.GetName()] = made
	select {
	case r.changed <- struct{}{}:
	default: // the news waits already
	}
	return fmt.Sprintf("armed for %v: %v without progress on %s", made.until-r.clocks.boot(), made.patience.few, made.watched), nil
}

// Disarm says whether there was something to disarm: a lease may have run out.
func (r *Failovers) Disarm(name string) string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, is := r.armed[name]; !is {
		return "it was not armed"
	}
	delete(r.armed, name)
	return "disarmed"
}

func (r *Failovers) parse(order *agentv1.Arm) (*watch, error) {
	few := time.Duration(order.GetNoProgressMs()) * time.Millisecond
	many := time.Duration(order.GetNoProgressManyMs()) * time.Millisecond
	if many == 0 {
		many = few
	}
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	watched, err := mptcpctl.ParsePath("watched", order.GetWatched())
	if err != nil {
		return nil, err
	}
	preference, err := mptcpctl.ParsePreference(&agentv1.Prefer{
		Path: order.GetFallback(), Others: []*agentv1.Path{order.GetWatched()}, Hard: true,
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the fallback makes no sense: %w", err)
	case order.GetName() == "":
		return nil, errors.New("the reflex has no name, expected one to disarm it by")
	case few < shortestStall || few > longestStall:
		return nil, fmt.Errorf("no_progress_ms of %v, expected %v to %v", few, shortestStall, longestStall)
	case many < shortestStall || many > few:
		return nil, fmt.Errorf("no_progress_many_ms of %v, expected %v to no_progress_ms (%v)", many, shortestStall, few)
	case lease <= 0 || lease > longestLease:
		return nil, fmt.Errorf("lease_ms of %v, expected up to %v", lease, longestLease)
	}
	return &watch{
		preference: preference, watched: watched, patience: patience{few, many}, until: r.clocks.boot() + lease,
		progress: r.clocks.monotonic(), left: few, flows: map[uint64]*flow{},
	}, nil
}

// Run watches until the context ends.
func (r *Failovers) Run(ctx context.Context) {
	for {
		pause := r.step(ctx)
		var next <-chan time.Time
		if pause > 0 {
			next = time.After(pause)
		}
		select {
		case <-next:
		case <-r.changed:
		case <-ctx.Done():
			return
		}
	}
}

// step looks once, fires what has to be fired, and says when to look again: 0 is when something is armed.
func (r *Failovers) step(ctx context.Context) time.Duration {
	r.forgive()
	if r.soonest() == 0 {
		return 0
	}
	connections, err := r.look()
	if err != nil {
		r.log.Error("armed reflexes cannot see", "because", err)
		return r.soonest()
	}
	for name, stalled := range r.stalled(connections) {
		r.fire(ctx, name, stalled)
	}
	return r.soonest()
}

// forgive takes what this host itself stood still for (an overloaded machine, a virtual one that its owner held up) out of
// what its paths stood still for: nothing could come in.
func (r *Failovers) forgive() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	late := r.clocks.monotonic() - r.due
	if r.due == 0 || late <= shortestWait {
		return
	}
	for _, w := range r.armed {
		w.forgive(late)
	}
}

// soonest drops what has run out and says how soon the most impatient of the others wants to look.
func (r *Failovers) soonest() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var pause time.Duration
	for name, w := range r.armed {
		if r.clocks.boot() >= w.until {
			delete(r.armed, name)
			r.log.Info("a reflex's lease is over", "name", name)
		} else if pause == 0 || w.next() < pause {
			pause = w.next()
		}
	}
	r.due = 0
	if pause > 0 {
		r.due = r.clocks.monotonic() + pause
	}
	return pause
}

// Those that have to fire, with how long their path has stalled. Each fires once.
type stalls map[string]stall

type stall struct {
	*watch
	lasted time.Duration
}

func (r *Failovers) stalled(connections []mptcp.Connection) stalls {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clocks.monotonic()
	found := stalls{}
	ends := r.byEnd(connections)
	for name, w := range r.armed {
		if lasted := w.look(now, on(w.watched, ends)); lasted > 0 {
			found[name] = stall{w, lasted}
			delete(r.armed, name)
		}
	}
	return found
}

// byEnd is all subflows by the address that tells their path: once a look, however many reflexes are armed.
func (r *Failovers) byEnd(connections []mptcp.Connection) map[netip.Addr][]mptcp.Subflow {
	found := map[netip.Addr][]mptcp.Subflow{}
	for _, c := range connections {
		if c.Token == 0 || r.role == agentv1.Role_ROLE_RELAY && !c.Serves {
			continue
		}
		for _, s := range c.Subflows {
			end := mptcpctl.End(r.role, s)
			found[end] = append(found[end], s)
		}
	}
	return found
}

func on(path mptcpctl.Path, ends map[netip.Addr][]mptcp.Subflow) []mptcp.Subflow {
	if len(path) == 1 {
		return ends[path[0]]
	}
	var found []mptcp.Subflow
	for _, address := range path {
		found = append(found, ends[address]...)
	}
	return found
}

func (r *Failovers) fire(ctx context.Context, name string, stalled stall) {
	ctx, cancel := context.WithTimeout(ctx, fireWithin)
	defer cancel()
	outcome, err := r.prefer(ctx, stalled.preference)
	said := outcome.Said
	if err != nil {
		said = fmt.Sprintf("%s; not all went well: %v", said, err)
	}
	r.log.Warn("a reflex fired", "name", name, "stalled", stalled.lasted, "connections", outcome.Connections, "said", said)
	word := &agentv1.Fired{
		Name: name, Said: said, MonotonicUs: uint64(r.clocks.monotonic().Microseconds()),
		StalledMs: uint32(stalled.lasted.Milliseconds()), Connections: uint32(outcome.Connections),
	}
	for {
		select {
		case r.fired <- word:
			return
		default:
		}
		select {
		case <-r.fired: // the oldest makes room
		default:
		}
	}
}
