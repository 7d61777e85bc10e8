// SPDX-License-Identifier: Apache-2.0

// Package intercept intercepts terminals' TCP connections at a gateway and carries them to relays
// (docs/how-to/relay.md).
//
//	Intercept ─▶ devices towards the bridge, nft, a proxy ─ for each terminal by addresses of its own ─▶ relays ─▶ InterceptionReport
//
// Each connection to a relay serves one terminal and uses the userspace path manager. The first subflow leaves over the
// terminal's best uplink. Once it is established, each other uplink gets a subflow. The relay schedules data on them.
package intercept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/mptcp"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

const tendEvery = time.Second

// ErrNoGateway is the error of terminals and relays, which intercept nothing.
var ErrNoGateway = errors.New("only a gateway intercepts terminals' connections: run an agent of role gateway on the host of its bridge")

// Executor carries out the controller's orders to intercept.
type Executor struct {
	kernel   *mptcp.Handle // nil: the hello contains the reason
	within   func(func() error) error
	identity func() (trust.Identity, error)
	guard    []string // the command that holds the path manager
	log      *slog.Logger

	mutex   sync.Mutex
	ended   bool
	order   *agentv1.Intercept // nil: nothing is ordered
	choices *agentv1.Choices
	current *interception
	failure error // why the order is not in force
}

// NewExecutor returns an executor without an order.
func NewExecutor(
	kernel *mptcp.Handle, within func(func() error) error, identity func() (trust.Identity, error), guard []string, log *slog.Logger,
) *Executor {
	return &Executor{kernel: kernel, within: within, identity: identity, guard: guard, log: log, choices: &agentv1.Choices{}}
}

// Order replaces the previous order. An equal order changes nothing.
func (e *Executor) Order(order *agentv1.Intercept) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case e.ended:
		return "", errors.New("the agent is ending and accepts no orders")
	case len(order.GetTerminals()) == 0:
		return "no connections are intercepted", errors.Join(e.end(), e.within(func() error {
			_, err := divert.Release() // remains of a killed agent
			return err
		}))
	case e.kernel == nil:
		return "", errors.New("cannot intercept: this host has no MPTCP; the agent's hello contains the reason")
	}
	spec, err := parseOrder(order)
	if err != nil {
		return "", err
	}
	if e.failure == nil && proto.Equal(e.order, order) {
		return summary(spec) + ", unchanged", nil
	}
	e.order = order
	e.failure = e.apply(spec)
	return summary(spec), e.failure
}

func summary(w spec) string {
	return fmt.Sprintf("intercepting connections of %s for %s", plural.Of(len(w.terminals), "terminal"), plural.Of(len(w.relays), "relay"))
}

func (e *Executor) apply(spec spec) error {
	if e.current == nil {
		current, err := newInterception(e)
		if err != nil {
			return err
		}
		e.current = current
	}
	return errors.Join(e.current.apply(spec), e.current.choose(e.choices))
}

// Choose replaces the previous choices.
func (e *Executor) Choose(order *agentv1.Choices) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	relays := map[string]*proxy.Relay{}
	if e.current != nil {
		relays = e.current.relays
	}
	if _, err := parseChoices(order, relays); err != nil {
		return "", err
	}
	e.choices = order
	if e.current == nil {
		return "no connections are intercepted, so the choices have no effect", nil
	}
	return plural.Of(len(order.GetChoices()), "choice") + " in force", e.current.choose(order)
}

// Run maintains the interception until the context ends, and then undoes it.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, e.tend)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.end(); err != nil {
		e.log.Error("cannot undo the interception of terminals' connections", "reason", err)
	}
	e.ended = true
}

// tend maintains the interception, and retries an order that failed.
func (e *Executor) tend() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case e.order == nil:
	case e.failure == nil:
		e.current.tend()
	default:
		if spec, err := parseOrder(e.order); err == nil {
			e.failure = e.apply(spec)
		}
	}
}

func (e *Executor) end() (err error) {
	if e.current != nil {
		err = e.current.end()
	}
	e.current, e.order, e.failure = nil, nil, nil
	return err
}

// Report returns nil without an order.
func (e *Executor) Report() *agentv1.InterceptionReport {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order == nil {
		return nil
	}
	report := &agentv1.InterceptionReport{}
	if e.current != nil {
		report = e.current.report(e.order)
	}
	if e.failure != nil {
		report.Reason = e.failure.Error()
	}
	return report
}
