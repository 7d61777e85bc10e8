// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/internal/portstate"
)

const (
	tickInterval = time.Second
	executorName = "window"
	liftDuration = 2 * time.Second // until windows are unmodified again (bpf/receive_window.bpf.c)
)

var errEnding = errors.New("the agent is ending and accepts no orders")

// Executor keeps the programs attached to the terminals' ports and applies the controller's caps.
type Executor struct {
	within func(func() error) error // runs a function in the ports' network namespace
	log    *slog.Logger
	attach attacher // nil: attachBest

	mutex    sync.Mutex
	wanted   []string // ports
	programs *programs
	ports    *ports
	missing  portstate.Ports // by port: why there is no program, or nil
	ending   time.Time       // when to unload the programs; zero while caps are ordered
	over     bool            // Run has ended: nothing begins any more
}

// NewExecutor returns an executor without orders.
func NewExecutor(within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{within: within, log: log}
}

// Order replaces the previous order. The same order again renews its lease. An order without caps and ports ends
// everything.
func (e *Executor) Order(order *agentv1.Caps) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.over {
		return "", errEnding
	}
	if len(order.GetCaps()) == 0 && len(order.GetPorts()) == 0 {
		return "no caps: windows pass unmodified", e.lift()
	}
	if err := check(order); err != nil {
		return "", err
	}
	caps, err := capsOf(order)
	if err != nil {
		return "", err
	}
	if err := e.begin(); err != nil {
		return "", err
	}
	e.ending = time.Time{}
	if err := e.programs.hold(caps, leaseOf(order)); err != nil {
		return "", err
	}
	if !slices.Equal(e.wanted, order.GetPorts()) {
		e.wanted = slices.Clone(order.GetPorts())
		e.refresh()
	}
	// If some ports have the programs, the order succeeds. Reports name the others.
	if missing := e.missingPorts(); len(missing) > 0 && len(missing) == len(e.wanted) {
		return "", fmt.Errorf("%s: %s", missing[0].GetPort(), missing[0].GetReason())
	}
	return fmt.Sprintf("lowering windows for %s at %s", plural.Of(len(caps), "pair"), plural.Of(len(e.wanted), "port")), nil
}

// Run maintains the ports until the context ends. Then all packets pass unmodified.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tickInterval, e.Tick)
	if err := e.end(); err != nil {
		e.log.Error("cannot unload the programs that lower windows", "reason", err)
	}
}

// end waits until lowered windows are unmodified again.
func (e *Executor) end() error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.over = true
	err := e.lift()
	if e.programs == nil {
		return err
	}
	time.Sleep(time.Until(e.ending))
	return errors.Join(err, e.unload())
}

// lift ends caps, and unloads the programs once no window is lowered.
func (e *Executor) lift() error {
	if e.programs == nil || !e.ending.IsZero() {
		return nil
	}
	if !e.programs.holds() {
		return e.unload()
	}
	e.ending = time.Now().Add(liftDuration)
	return e.programs.hold(nil, 0)
}

// Tick looks for ports that disappeared or returned, and forgets closed connections.
func (e *Executor) Tick() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.programs == nil {
		return
	}
	if !e.ending.IsZero() && time.Now().After(e.ending) {
		if err := e.unload(); err != nil {
			e.log.Warn("cannot unload the programs that lower windows", "reason", err)
		}
		return
	}
	e.refresh()
	if err := e.programs.forget(); err != nil {
		e.log.Warn("cannot remove closed connections from the maps", "reason", err)
	}
}

// Report returns nil if nothing is ordered.
func (e *Executor) Report() *agentv1.Capping {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.programs == nil || !e.ending.IsZero() {
		return nil
	}
	report := &agentv1.Capping{Method: executorName, Missing: e.missingPorts()}
	passing, held, err := e.programs.passing()
	if err != nil {
		report.Missing = append(report.Missing, &agentv1.Missing{Port: "all", Reason: err.Error()})
	}
	report.Passing, report.HeldSockets = passing, uint32(held)
	return report
}

func (e *Executor) begin() error {
	if e.programs != nil {
		return nil
	}
	programs, err := load()
	if err != nil {
		return err
	}
	e.programs, e.ports = programs, newPorts(programs, e.attach)
	e.wanted, e.missing = nil, portstate.Ports{}
	return nil
}

func (e *Executor) unload() error {
	if e.programs == nil {
		return nil
	}
	err := errors.Join(e.within(e.ports.close), e.programs.close())
	e.programs, e.ports, e.wanted, e.missing, e.ending = nil, nil, nil, nil, time.Time{}
	return err
}

// refresh updates the ports. The caller holds the mutex.
func (e *Executor) refresh() {
	err := e.within(func() error {
		for port := range e.missing {
			if !slices.Contains(e.wanted, port) {
				delete(e.missing, port)
				if err := e.ports.leave(port); err != nil {
					e.log.Warn("cannot detach the programs that lower windows from a port", "port", port, "reason", err)
				}
			}
		}
		for _, port := range e.wanted {
			e.setState(port, e.ports.ensure(port))
		}
		return nil
	})
	if err == nil {
		return
	}
	for _, port := range e.wanted {
		e.setState(port, err)
	}
}

// setState logs a change of a port's state.
func (e *Executor) setState(port string, err error) {
	e.missing.Found(port, err, e.log, portstate.Words{Lost: "windows are not lowered at a port", Back: "windows are lowered at a port again"})
}

func (e *Executor) missingPorts() []*agentv1.Missing {
	var missing []*agentv1.Missing
	for _, port := range slices.Sorted(slices.Values(e.wanted)) {
		if err := e.missing[port]; err != nil {
			missing = append(missing, &agentv1.Missing{Port: port, Reason: err.Error()})
		}
	}
	return missing
}
