// SPDX-License-Identifier: Apache-2.0

// Package failover moves connections off a dead path without asking the controller, which armed the failover in advance. That is
// faster than a report and an order, and works without a controller until the lease ends.
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

// The limits of what can be armed.
const (
	minInterval   = 20 * time.Millisecond
	minWait       = 2 * time.Millisecond
	minStall      = 20 * time.Millisecond
	maxStall      = 60 * time.Second
	maxLease      = 24 * time.Hour
	maxArmed      = 512      // one per terminal: 250 of a relay, and as many old ones whose lease has not ended
	maxUnreported = maxArmed // a dead path may affect all terminals
	fireTimeout   = 5 * time.Second
)

// Failovers holds the armed failovers of this host. Without any, it does nothing.
type Failovers struct {
	role   agentv1.Role
	look   func() ([]mptcp.Connection, error)
	prefer func(context.Context, mptcpctl.Preference) (mptcpctl.Outcome, error)
	log    *slog.Logger
	clocks clocks

	mutex   sync.Mutex
	armed   map[string]*armedFailover
	due     time.Duration // next look on CLOCK_MONOTONIC; 0 while nothing is armed
	changed chan struct{} // signals that a failover was armed
	fired   chan *agentv1.FailoverFired
}

// clocks are the two clocks in use: see package clock.
type clocks struct {
	monotonic func() time.Duration
	boot      func() time.Duration
}

// New returns an executor with nothing armed.
func New(
	role agentv1.Role, look func() ([]mptcp.Connection, error),
	prefer func(context.Context, mptcpctl.Preference) (mptcpctl.Outcome, error), log *slog.Logger,
) *Failovers {
	return &Failovers{
		role: role, look: look, prefer: prefer, log: log,
		clocks: clocks{clock.Monotonic, clock.Boot},
		armed:  map[string]*armedFailover{}, changed: make(chan struct{}, 1), fired: make(chan *agentv1.FailoverFired, maxUnreported),
	}
}

// Fired reports failovers that fired. If nobody reads, the oldest reports are dropped.
func (r *Failovers) Fired() <-chan *agentv1.FailoverFired { return r.fired }

// Arm arms a failover, or returns what is wrong with the order.
func (r *Failovers) Arm(order *agentv1.Arm) (string, error) {
	made, err := r.parse(order)
	if err != nil {
		return "", err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before, again := r.armed[order.GetName()]
	if !again && len(r.armed) == maxArmed {
		return "", fmt.Errorf("%d failovers are armed, which is the limit: disarm one", maxArmed)
	}
	if again && slices.Equal(before.watched, made.watched) { // a stall in progress continues
		made.progress, made.flows = before.progress, before.flows
	}
	r.armed[order.GetName()] = made
	select {
	case r.changed <- struct{}{}:
	default: // a signal is pending
	}
	return fmt.Sprintf("armed for %v: %v without progress on %s", made.until-r.clocks.boot(), made.patience.few, made.watched), nil
}

// Disarm reports whether the failover was armed: its lease may have ended.
func (r *Failovers) Disarm(name string) string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, is := r.armed[name]; !is {
		return "it was not armed"
	}
	delete(r.armed, name)
	return "disarmed"
}

func (r *Failovers) parse(order *agentv1.Arm) (*armedFailover, error) {
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
		return nil, fmt.Errorf("invalid fallback: %w", err)
	case order.GetName() == "":
		return nil, errors.New("the failover has no name, expected one that Disarm can refer to")
	case few < minStall || few > maxStall:
		return nil, fmt.Errorf("no_progress_ms of %v, expected %v to %v", few, minStall, maxStall)
	case many < minStall || many > few:
		return nil, fmt.Errorf("no_progress_many_ms of %v, expected %v to no_progress_ms (%v)", many, minStall, few)
	case lease <= 0 || lease > maxLease:
		return nil, fmt.Errorf("lease_ms of %v, expected up to %v", lease, maxLease)
	}
	return &armedFailover{
		preference: preference, watched: watched, patience: patience{few, many}, until: r.clocks.boot() + lease,
		progress: r.clocks.monotonic(), left: few, flows: map[uint64]*flow{},
	}, nil
}

// Run monitors the paths until the context ends.
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

// step looks at the paths, fires failovers, and returns the time until the next look, or 0 if nothing is armed.
func (r *Failovers) step(ctx context.Context) time.Duration {
	r.discount()
	if r.nextLook() == 0 {
		return 0
	}
	connections, err := r.look()
	if err != nil {
		r.log.Error("armed failovers cannot read the connections", "reason", err)
		return r.nextLook()
	}
	for name, stalled := range r.stalled(connections) {
		r.fire(ctx, name, stalled)
	}
	return r.nextLook()
}

// discount subtracts the time that this host itself stalled, for example while overloaded or a paused virtual
// machine. Nothing could be received then.
func (r *Failovers) discount() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	late := r.clocks.monotonic() - r.due
	if r.due == 0 || late <= minWait {
		return
	}
	for _, w := range r.armed {
		w.discount(late)
	}
}

// nextLook drops failovers whose lease has ended and returns the time until the next look.
func (r *Failovers) nextLook() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var pause time.Duration
	for name, w := range r.armed {
		if r.clocks.boot() >= w.until {
			delete(r.armed, name)
			r.log.Info("the lease of a failover has ended", "name", name)
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

// stalls are the failovers to fire, with the duration of the stall. Each fires once.
type stalls map[string]stall

type stall struct {
	*armedFailover
	lasted time.Duration
}

func (r *Failovers) stalled(connections []mptcp.Connection) stalls {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clocks.monotonic()
	found := stalls{}
	ends := r.byAddress(connections)
	for name, w := range r.armed {
		if lasted := w.look(now, on(w.watched, ends)); lasted > 0 {
			found[name] = stall{w, lasted}
			delete(r.armed, name)
		}
	}
	return found
}

// byAddress groups the subflows by the address that identifies their path, once per look for all failovers.
func (r *Failovers) byAddress(connections []mptcp.Connection) map[netip.Addr][]mptcp.Subflow {
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
	ctx, cancel := context.WithTimeout(ctx, fireTimeout)
	defer cancel()
	outcome, err := r.prefer(ctx, stalled.preference)
	result := outcome.Answer
	if err != nil {
		result = fmt.Sprintf("%s; some connections failed: %v", result, err)
	}
	r.log.Warn("a failover fired", "name", name, "stalled", stalled.lasted, "connections", outcome.Connections, "said", result)
	word := &agentv1.FailoverFired{
		Name: name, Answer: result, MonotonicUs: uint64(r.clocks.monotonic().Microseconds()),
		StalledMs: uint32(stalled.lasted.Milliseconds()), Connections: uint32(outcome.Connections),
	}
	for {
		select {
		case r.fired <- word:
			return
		default:
		}
		select {
		case <-r.fired: // drop the oldest
		default:
		}
	}
}
