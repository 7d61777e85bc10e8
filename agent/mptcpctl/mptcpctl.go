// SPDX-License-Identifier: Apache-2.0

// Package mptcpctl applies a controller's preferences to this host's live MPTCP connections, and to none but those of the
// terminal that the order names.
package mptcpctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"bicast/api/agentv1"
	"bicast/mptcp"
)

// Kernel is what an executor needs of *mptcp.Handle.
type Kernel interface {
	Connections() ([]mptcp.Connection, error)
	PathManagerOf(c mptcp.Connection) (mptcp.PathManager, error)
	Prefer(c mptcp.Connection, wanted, others []mptcp.Subflow, hard bool) (mptcp.Change, error)
	PreferEndpoints(wanted, others []netip.Addr, hard bool) (mptcp.Change, error)
}

// Executor moves connections between paths. Several goroutines may ask: one preference is carried out at a time.
type Executor struct {
	Role      agentv1.Role
	Kernel    Kernel
	Addresses func() ([]netip.Addr, error) // of this host's namespace

	one sync.Mutex
}

// ErrGateway is why a gateway refuses every preference.
var ErrGateway = errors.New("a gateway forwards connections and has none of a terminal's: order the terminal, or the relay " +
	"that serves it")

// Outcome is what came of a preference, for a Result or a Fired.
type Outcome struct {
	Connections int // that it reached
	Said        string
}

// Prefer carries a preference out. An error says why it was not, or not wholly; the outcome counts what was all the same.
func (e *Executor) Prefer(ctx context.Context, preference Preference) (Outcome, error) {
	e.one.Lock()
	defer e.one.Unlock()
	switch e.Role {
	case agentv1.Role_ROLE_TERMINAL:
		return e.asTerminal(ctx, preference)
	case agentv1.Role_ROLE_RELAY:
		return e.asServer(ctx, preference)
	default:
		return Outcome{}, ErrGateway
	}
}

// End is the address that tells a subflow's path: at the terminal its own, where connections are served its peer's.
func End(role agentv1.Role, s mptcp.Subflow) netip.Addr {
	if role == agentv1.Role_ROLE_TERMINAL {
		return s.Local.Addr()
	}
	return s.Remote.Addr()
}

// At the terminal every connection is its own, so orders by endpoint reach nobody else.
func (e *Executor) asTerminal(ctx context.Context, preference Preference) (Outcome, error) {
	ours, err := e.Addresses()
	if err != nil {
		return Outcome{}, fmt.Errorf("this host's addresses cannot be read: %w", err)
	}
	wanted, others := preference.Path.In(ours), preference.Others.In(ours)
	if len(wanted) == 0 {
		return Outcome{}, fmt.Errorf("%s is not an address of this host now: that path is down, or it is another terminal's", preference.Path)
	}
	connections, err := e.Kernel.Connections()
	if err != nil {
		return Outcome{}, err
	}
	work := &round{executor: e, preference: preference}
	byEndpoint := map[mptcp.Token]bool{}
	for _, c := range connections {
		if c.Token == 0 || !work.concerns(c) {
			continue
		}
		switch manager, err := e.Kernel.PathManagerOf(c); {
		case err != nil:
			work.failed(err)
		case manager == mptcp.UserspaceManager:
			work.prefer(ctx, c)
		default:
			byEndpoint[c.Token] = true
		}
	}
	if len(byEndpoint) > 0 || work.empty() {
		change, err := e.Kernel.PreferEndpoints(wanted, others, preference.Hard)
		work.count(change, err)
		if err == nil {
			work.lookAt(byEndpoint)
		}
	}
	return work.outcome()
}

// Where connections are served, only an order by token stays with one terminal.
func (e *Executor) asServer(ctx context.Context, preference Preference) (Outcome, error) {
	connections, err := e.Kernel.Connections()
	if err != nil {
		return Outcome{}, err
	}
	work := &round{executor: e, preference: preference}
	for _, c := range connections {
		if c.Token == 0 || !c.Serves || !work.concerns(c) {
			continue
		}
		switch manager, err := e.Kernel.PathManagerOf(c); {
		case err != nil:
			work.failed(err)
		case manager == mptcp.UserspaceManager:
			work.prefer(ctx, c)
		default:
			work.failed(fmt.Errorf("%v was made under the kernel's path manager, which flags a path for every client of "+
				"this host and not for this terminal alone: connections that are made while the agent runs can be moved", c))
		}
	}
	return work.outcome()
}

// One preference being carried out.
type round struct {
	executor   *Executor
	preference Preference
	reached    int
	did        []string
	failures   []error
	without    int // connections ordered by endpoint that have no path to go by
}

func (r *round) concerns(c mptcp.Connection) bool {
	for _, s := range c.Subflows {
		if end := End(r.executor.Role, s); r.preference.Path.Has(end) || r.preference.Others.Has(end) {
			return true
		}
	}
	return false
}

func (r *round) prefer(ctx context.Context, c mptcp.Connection) {
	if ctx.Err() != nil {
		r.failed(fmt.Errorf("no time was left for %v", c))
		return
	}
	var wanted, others []mptcp.Subflow
	for _, s := range c.Subflows {
		switch end := End(r.executor.Role, s); {
		case r.preference.Path.Has(end):
			wanted = append(wanted, s)
		case r.preference.Others.Has(end):
			others = append(others, s)
		}
	}
	change, err := r.executor.Kernel.Prefer(c, wanted, others, r.preference.Hard)
	r.count(change, err)
}

// lookAt sees what came of an order by endpoint, of which the kernel says nothing: whether these connections have the path
// of the preference, and whether it is active. What the other end has flagged stays backup; of a dead path's alternatives even
// such a one carries.
func (r *round) lookAt(ordered map[mptcp.Token]bool) {
	connections, err := r.executor.Kernel.Connections()
	if err != nil {
		r.failed(err)
	}
	for _, c := range connections {
		if !ordered[c.Token] {
			continue
		}
		paths := slices.DeleteFunc(slices.Clone(c.Subflows), func(s mptcp.Subflow) bool {
			return !s.Established || !r.preference.Path.Has(End(r.executor.Role, s))
		})
		if len(paths) == 0 {
			r.without++
		} else if err := c.OneActive(paths); err != nil && !r.preference.Hard {
			r.failed(err)
		}
	}
}

func (r *round) count(change mptcp.Change, err error) {
	if err != nil {
		r.failed(err)
		return
	}
	r.reached += change.Connections
	r.did = append(r.did, change.Did...)
}

// A connection that has ended wants nothing any more.
func (r *round) failed(err error) {
	if kind, ours := mptcp.KindOf(err); ours && (kind == mptcp.Gone || kind == mptcp.Reused) {
		return
	}
	r.failures = append(r.failures, err)
}

func (r *round) empty() bool { return r.reached == 0 && len(r.failures) == 0 }

func (r *round) outcome() (Outcome, error) {
	outcome := Outcome{Connections: r.reached, Said: inShort(r.did)}
	if outcome.Said == "" {
		outcome.Said = "no connection had to be changed"
	}
	if r.without > 0 {
		outcome.Said += fmt.Sprintf("; %d of them have no path by %s and stay where they are", r.without, r.preference.Path)
	}
	if len(r.failures) == 0 {
		return outcome, nil
	}
	err := r.failures[0]
	if more := len(r.failures) - 1; more > 0 {
		err = fmt.Errorf("%w (and %d more)", err, more)
	}
	return outcome, err
}

// A result is for people to read: of a thousand connections it tells the first ones.
func inShort(did []string) string {
	const told = 4
	if len(did) <= told {
		return strings.Join(did, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(did[:told], "; "), len(did)-told)
}
