// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"log/slog"

	"bicast/agent/blocks"
	"bicast/agent/caps/clamp"
	"bicast/agent/caps/receivewindow"
	"bicast/agent/caps/structops"
	"bicast/api/agentv1"
)

// windows enforces caps on this host. A terminal's executor caps its own sockets' windows; a gateway's caps the receive
// windows that it forwards to its terminals. On a terminal, blocks also informs local programs of the sharers.
type windows struct {
	executor windowExecutor
	cannot   error            // why this kernel enforces no caps; an order without caps succeeds nevertheless
	blocks   *blocks.Executor // nil on a gateway
}

type windowExecutor interface {
	Order(*agentv1.Caps) (string, error)
	Report() *agentv1.Capping
	Run(context.Context)
}

var errRelay = errors.New("a relay enforces no caps: send the order to the terminal or to its gateway")

// openWindows returns nil for a role without caps.
func openWindows(s Settings, within func(func() error) error) *windows {
	switch s.Role {
	case agentv1.Role_ROLE_TERMINAL:
		sharers := blocks.NewExecutor(s.Sharers, within, s.Log)
		sharers.Govern(s.BlocksCgroup)
		executor, cannot := ofTerminal(within, s.Log)
		return &windows{executor, cannot, sharers}
	case agentv1.Role_ROLE_GATEWAY:
		return &windows{executor: receivewindow.NewExecutor(within, s.Log), cannot: receivewindow.Probe()}
	default:
		return nil
	}
}

// ofTerminal returns the executor that this kernel supports: the clamp if it loads no congestion control in BPF.
func ofTerminal(within func(func() error) error, log *slog.Logger) (windowExecutor, error) {
	cannot := structops.Probe()
	if cannot == nil {
		return structops.NewExecutor(within, log), nil
	}
	if clamp.Probe() == nil {
		return clamp.NewExecutor(within, log), nil
	}
	return structops.NewExecutor(within, log), cannot
}

func (w *windows) order(order *agentv1.Caps) (string, error) {
	if w == nil {
		return "", errRelay
	}
	if w.blocks != nil {
		if err := w.blocks.Order(order); err != nil {
			return "", err
		}
	}
	switch {
	case w.cannot == nil:
		return w.executor.Order(order)
	case len(order.GetCaps()) > 0 || len(order.GetPorts()) > 0:
		return "", w.cannot
	default:
		return "no caps: windows are unlimited", nil
	}
}

func (w *windows) report() *agentv1.Capping {
	if w == nil {
		return nil
	}
	return w.executor.Report()
}

// parts returns functions that run until their context ends.
func (w *windows) parts() []func(context.Context) {
	switch {
	case w == nil:
		return nil
	case w.blocks == nil:
		return []func(context.Context){w.executor.Run}
	default:
		return []func(context.Context){w.executor.Run, w.blocks.Run}
	}
}
