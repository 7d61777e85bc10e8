// SPDX-License-Identifier: Apache-2.0

// Package mptcpctl applies the controller's path preferences to this host's live MPTCP connections, limited to the terminal that
// the order names.
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

// Kernel is the part of *mptcp.Handle that an executor needs.
type Kernel interface {
	Connections() ([]mptcp.Connection, error)
	PathManagerOf(c mptcp.Connection) (mptcp.PathManager, error)
	Prefer(c mptcp.Connection, wanted, others []mptcp.Subflow, hard bool) (mptcp.Change, error)
	PreferEndpoints(wanted, others []netip.Addr, hard bool) (mptcp.Change, error)
}

// Executor moves connections between paths, one preference at a time. It is safe for concurrent use.
type Executor struct {
	Role      agentv1.Role
	Kernel    Kernel
	Addresses func() ([]netip.Addr, error) // addresses of this host's namespace

	one sync.Mutex
}

// ErrGateway is the reason why a gateway refuses every preference.
var ErrGateway = errors.New("a gateway only forwards the connections of terminals: send the order to the terminal, or to the relay " +
	"that serves it")

// Outcome is the result of a preference, for a Result or a Fired message.
type Outcome struct {
	Connections int // number of changed connections
	Answer      string
}

// Prefer applies a preference. The outcome counts the connections that changed, even if the error reports that others
// failed.
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

// End returns the address that identifies a subflow's path: the local one on a terminal, the peer's on a relay.
func End(role agentv1.Role, s mptcp.Subflow) netip.Addr {
	if role == agentv1.Role_ROLE_TERMINAL {
		return s.Local.Addr()
	}
	return s.Remote.Addr()
}

// asTerminal orders by endpoint: on a terminal every connection is its own, so no other host is affected.
func (e *Executor) asTerminal(ctx context.Context, preference Preference) (Outcome, error) {
	ours, err := e.Addresses()
	if err != nil {
		return Outcome{}, fmt.Errorf("cannot read this host's addresses: %w", err)
	}
	wanted, others := preference.Path.In(ours), preference.Others.In(ours)
	if len(wanted) == 0 {
		return Outcome{}, fmt.Errorf("%s is not an address of this host now: the path is down, or belongs to another terminal", preference.Path)
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
			work.checkEndpoints(byEndpoint)
		}
	}
	return work.outcome()
}

// asServer orders by token: on a relay an order by endpoint would affect every terminal.
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
			work.failed(fmt.Errorf("%v is under the kernel's path manager, which flags a path for every client of "+
				"this host and not for one terminal: only connections that begin while the agent runs can be moved", c))
		}
	}
	return work.outcome()
}

// round applies one preference.
type round struct {
	executor   *Executor
	preference Preference
	reached    int
	did        []string
	failures   []error
	without    int // connections ordered by endpoint that do not have the path
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
		r.failed(fmt.Errorf("timeout before %v was changed", c))
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

// checkEndpoints checks the result of an order by endpoint, which the kernel does not report: whether these
// connections have the preferred path, and whether it is active. A backup flag of the peer stays. If the other path
// is dead, even a backup subflow carries data.
func (r *round) checkEndpoints(ordered map[mptcp.Token]bool) {
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

// failed records an error, unless the connection has just ended.
func (r *round) failed(err error) {
	if kind, ours := mptcp.KindOf(err); ours && (kind == mptcp.Gone || kind == mptcp.Reused) {
		return
	}
	r.failures = append(r.failures, err)
}

func (r *round) empty() bool { return r.reached == 0 && len(r.failures) == 0 }

func (r *round) outcome() (Outcome, error) {
	outcome := Outcome{Connections: r.reached, Answer: summary(r.did)}
	if outcome.Answer == "" {
		outcome.Answer = "no connection needed a change"
	}
	if r.without > 0 {
		outcome.Answer += fmt.Sprintf("; %d of them have no path over %s and were not moved", r.without, r.preference.Path)
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

// summary lists the first changes only, because people read it.
func summary(did []string) string {
	const shown = 4
	if len(did) <= shown {
		return strings.Join(did, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(did[:shown], "; "), len(did)-shown)
}
