// SPDX-License-Identifier: Apache-2.0

// Package intercept intercepts terminals' TCP connections at a gateway and carries them to relays (docs/how-to/relay.md), as a
// controller orders.
//
//	Take ─▶ devices towards the bridge, nft, a proxy ─ for each terminal by addresses of its own ─▶ relays ─▶ Taking
//
// Connections to relays are of one terminal each, and under the userspace path manager: the first subflow leaves by the
// terminal's best uplink, and as soon as it stands a further one is made by each of the others. Which of them carries what is
// the relay's side to say.
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

// ErrNoGateway is why a terminal and a relay take nothing.
var ErrNoGateway = errors.New("terminals' connections are taken at a gateway: run an agent of role gateway where its bridge is")

// Executor takes as a controller ordered.
type Executor struct {
	kernel   *mptcp.Handle // nil: why not, the hello says
	within   func(func() error) error
	identity func() (trust.Identity, error)
	guard    []string // the command that holds the path manager
	log      *slog.Logger

	mutex   sync.Mutex
	ended   bool
	order   *agentv1.Take // nil: nothing is ordered
	choices *agentv1.Choices
	current *interception
	trouble error // why it is not as ordered
}

// NewExecutor has nothing to do yet.
func NewExecutor(
	kernel *mptcp.Handle, within func(func() error) error, identity func() (trust.Identity, error), guard []string, log *slog.Logger,
) *Executor {
	return &Executor{kernel: kernel, within: within, identity: identity, guard: guard, log: log, choices: &agentv1.Choices{}}
}

// Order takes the place of the order before; the same once more changes nothing.
func (e *Executor) Order(order *agentv1.Take) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case e.ended:
		return "", errors.New("this agent is ending")
	case len(order.GetTerminals()) == 0:
		return "nothing is taken", errors.Join(e.end(), e.within(func() error {
			_, err := divert.Release() // what an agent left that was killed
			return err
		}))
	case e.kernel == nil:
		return "", errors.New("nothing can be taken: MPTCP connections of this host cannot be ordered; the agent's hello says why")
	}
	wanted, err := read(order)
	if err != nil {
		return "", err
	}
	if e.trouble == nil && proto.Equal(e.order, order) {
		return said(wanted) + ", as before", nil
	}
	e.order = order
	e.trouble = e.obey(wanted)
	return said(wanted), e.trouble
}

func said(w wanted) string {
	return fmt.Sprintf("connections of %s are taken, for %s", plural.Of(len(w.terminals), "terminal"), plural.Of(len(w.relays), "relay"))
}

func (e *Executor) obey(wanted wanted) error {
	if e.current == nil {
		current, err := begin(e)
		if err != nil {
			return err
		}
		e.current = current
	}
	return errors.Join(e.current.obey(wanted), e.current.choose(e.choices))
}

// Choose takes the place of the choices before.
func (e *Executor) Choose(order *agentv1.Choices) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	relays := map[string]*proxy.Relay{}
	if e.current != nil {
		relays = e.current.relays
	}
	if _, err := chosen(order, relays); err != nil {
		return "", err
	}
	e.choices = order
	if e.current == nil {
		return "nothing is taken, so nothing is chosen", nil
	}
	return plural.Of(len(order.GetChoices()), "choice") + " known", e.current.choose(order)
}

// Run sees to what stands until the context ends, and then undoes it.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, e.tend)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.end(); err != nil {
		e.log.Error("what takes terminals' connections did not end well", "reason", err)
	}
	e.ended = true
}

// tend sees to what stands, and tries again what could not be done.
func (e *Executor) tend() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case e.order == nil:
	case e.trouble == nil:
		e.current.tend()
	default:
		if wanted, err := read(e.order); err == nil {
			e.trouble = e.obey(wanted)
		}
	}
}

func (e *Executor) end() (err error) {
	if e.current != nil {
		err = e.current.end()
	}
	e.current, e.order, e.trouble = nil, nil, nil
	return err
}

// Report is what the contract's has of taking; nil: nothing is ordered.
func (e *Executor) Report() *agentv1.Taking {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order == nil {
		return nil
	}
	report := &agentv1.Taking{}
	if e.current != nil {
		report = e.current.report(e.order)
	}
	if e.trouble != nil {
		report.Reason = e.trouble.Error()
	}
	return report
}
