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
	tendEvery    = time.Second
	executorName = "window"
	lifted       = 2 * time.Second // by when windows are their receivers' own again (bpf/receive_window.bpf.c)
)

var errEnding = errors.New("the agent is ending")

// Executor keeps what a controller ordered of caps at the ports where terminals are, as long as these are there.
type Executor struct {
	within func(func() error) error // runs in the namespace of the ports
	log    *slog.Logger
	attach attacher // nil: as the kernel can

	mutex    sync.Mutex
	wanted   []string // ports
	programs *programs
	ports    *ports
	missing  portstate.Ports // of the ports: why there is no program; nil where it stands
	ending   time.Time       // of the programs, when nothing is ordered any more
	over     bool            // it ends, or has: nothing begins any more
}

// NewExecutor has nothing to do yet.
func NewExecutor(within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{within: within, log: log}
}

// Order takes the place of the order before; the same once more renews its lease. Without caps and ports everything ends.
func (e *Executor) Order(order *agentv1.Caps) (string, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.over {
		return "", errEnding
	}
	if len(order.GetCaps()) == 0 && len(order.GetPorts()) == 0 {
		return "no window is lowered", e.lift()
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
		e.tend()
	}
	// Where the others stand the order is obeyed; that one does not, reports say.
	if missing := e.without(); len(missing) > 0 && len(missing) == len(e.wanted) {
		return "", fmt.Errorf("%s: %s", missing[0].GetPort(), missing[0].GetBecause())
	}
	return fmt.Sprintf("windows are lowered for %s at %s", plural.Of(len(caps), "pair"), plural.Of(len(e.wanted), "port")), nil
}

// Run sees to the ports until the context ends, and then lets everything pass as it is.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, e.Tend)
	if err := e.end(); err != nil {
		e.log.Error("the programs that lower windows did not end well", "because", err)
	}
}

// end takes as long as windows take that were lowered.
func (e *Executor) end() error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.over = true
	err := e.lift()
	if e.programs == nil {
		return err
	}
	time.Sleep(time.Until(e.ending))
	return errors.Join(err, e.let())
}

// lift ends caps, and everything as soon as nothing is held back any more.
func (e *Executor) lift() error {
	if e.programs == nil || !e.ending.IsZero() {
		return nil
	}
	if !e.programs.holds() {
		return e.let()
	}
	e.ending = time.Now().Add(lifted)
	return e.programs.hold(nil, 0)
}

// Tend looks for the ports, which may have gone and come back, and forgets connections that have ended.
func (e *Executor) Tend() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.programs == nil {
		return
	}
	if !e.ending.IsZero() && time.Now().After(e.ending) {
		if err := e.let(); err != nil {
			e.log.Warn("the programs that lower windows did not end well", "because", err)
		}
		return
	}
	e.tend()
	if err := e.programs.forget(); err != nil {
		e.log.Warn("connections that have ended are not forgotten", "because", err)
	}
}

// Report is nil where nothing is ordered.
func (e *Executor) Report() *agentv1.Capping {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.programs == nil || !e.ending.IsZero() {
		return nil
	}
	report := &agentv1.Capping{Hand: executorName, Missing: e.without()}
	passing, held, err := e.programs.passing()
	if err != nil {
		report.Missing = append(report.Missing, &agentv1.Missing{Port: "all", Because: err.Error()})
	}
	report.Passing, report.Held = passing, uint32(held)
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

func (e *Executor) let() error {
	if e.programs == nil {
		return nil
	}
	err := errors.Join(e.within(e.ports.close), e.programs.close())
	e.programs, e.ports, e.wanted, e.missing, e.ending = nil, nil, nil, nil, time.Time{}
	return err
}

// Under the mutex.
func (e *Executor) tend() {
	err := e.within(func() error {
		for port := range e.missing {
			if !slices.Contains(e.wanted, port) {
				delete(e.missing, port)
				if err := e.ports.leave(port); err != nil {
					e.log.Warn("the programs that lower windows did not leave a port well", "port", port, "because", err)
				}
			}
		}
		for _, port := range e.wanted {
			e.found(port, e.ports.stand(port))
		}
		return nil
	})
	if err == nil {
		return
	}
	for _, port := range e.wanted {
		e.found(port, err)
	}
}

// found says once what has changed.
func (e *Executor) found(port string, err error) {
	e.missing.Found(port, err, e.log, portstate.Words{Lost: "windows pass as they are here", Back: "the port of terminals is there"})
}

func (e *Executor) without() []*agentv1.Missing {
	var missing []*agentv1.Missing
	for _, port := range slices.Sorted(slices.Values(e.wanted)) {
		if err := e.missing[port]; err != nil {
			missing = append(missing, &agentv1.Missing{Port: port, Because: err.Error()})
		}
	}
	return missing
}
