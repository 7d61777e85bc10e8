// SPDX-License-Identifier: Apache-2.0

// Package caps is the common part of the executors that cap a terminal's own congestion windows: orders, leases and maps. The
// executors are agent/caps/structops and, if the kernel does not load our congestion control, agent/caps/clamp. A gateway uses
// agent/caps/receivewindow.
package caps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
)

const (
	tickInterval      = 200 * time.Millisecond
	heartbeatLease    = 5 * time.Second // a slow agent is not dead
	sweepsAfterChange = 2               // during the first sweep after a change, a new socket may still get the old cap
)

// Method is a method to hold windows.
type Method struct {
	By     string // its name in api/agent.proto
	Begin  func() (Program, error)
	AtOnce bool   // begin at the start instead of with the first cap
	Lacks  string // what the method cannot do, as a suffix to the result of an order
}

// Program holds the sockets of a namespace. Call its methods in that namespace.
type Program interface {
	Capped() int
	Heartbeat() error
	Replace(map[Pair]Bounds) (changed bool, err error)
	Renew(time.Duration) error
	Sweep() (Tally, error)
	Close() error
}

var errEnding = errors.New("the agent is ending and accepts no orders")

// Executor applies the controller's caps to this host's sockets until the lease ends.
type Executor struct {
	method Method
	within func(func() error) error // runs a function in the host's network namespace
	log    *slog.Logger

	mutex         sync.Mutex
	program       Program   // nil before begin
	until         time.Time // end of the lease
	ordered       bool
	closed        bool // Run has ended: nothing begins any more
	pendingSweeps int  // sweeps that must still run, even without caps
	found         Tally
	failure       string
}

// NewExecutor returns an executor without caps.
func NewExecutor(method Method, within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{method: method, within: within, log: log}
}

// Order replaces the caps. The same order again renews the lease.
func (e *Executor) Order(order *agentv1.Caps) (string, error) {
	caps, lease, err := read(order)
	if err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.closed {
		return "", errEnding
	}
	if err := e.apply(caps, lease); err != nil {
		return "", err
	}
	e.until, e.ordered = time.Now().Add(lease), true
	if len(caps) == 0 {
		return "no caps: windows are unlimited", nil
	}
	return fmt.Sprintf("%s under %s%s", plural.Of(int(e.found.Held), "socket"), plural.Of(len(caps), "cap"), e.method.Lacks), nil
}

// Run maintains the caps until the context ends, then releases every window.
func (e *Executor) Run(ctx context.Context) {
	if e.method.AtOnce {
		e.beginEarly()
	}
	clock.Every(ctx, tickInterval, e.tick)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.end()
}

// Report returns nil if no caps are ordered.
func (e *Executor) Report() *agentv1.Capping {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !e.ordered {
		return nil
	}
	return &agentv1.Capping{Method: e.method.By, HeldSockets: e.found.Held}
}

// apply puts caps in force. The caller holds the mutex.
func (e *Executor) apply(caps map[Pair]Bounds, lease time.Duration) error {
	if e.program == nil {
		if len(caps) == 0 {
			return nil
		}
		if err := e.begin(); err != nil {
			return err
		}
	}
	changed, err := e.replace(caps)
	if err != nil {
		return err
	}
	if err := e.program.Renew(lease); err != nil {
		return err
	}
	if changed {
		return e.sweep()
	}
	return nil
}

// replace schedules sweeps if a cap changed. The caller holds the mutex.
func (e *Executor) replace(caps map[Pair]Bounds) (changed bool, err error) {
	changed, err = e.program.Replace(caps)
	if changed {
		e.pendingSweeps = sweepsAfterChange
	}
	return changed, err
}

// begin loads the program. The caller holds the mutex.
func (e *Executor) begin() error {
	return e.within(func() error {
		program, err := e.method.Begin()
		if err != nil {
			return err
		}
		e.program = program
		return program.Heartbeat()
	})
}

// beginEarly may fail. The first cap tries again.
func (e *Executor) beginEarly() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.program != nil {
		return
	}
	if err := e.begin(); err != nil {
		e.log.Warn("cannot hold windows", "reason", err)
	}
}

func (e *Executor) tick() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.program != nil {
		if err := e.program.Heartbeat(); err != nil {
			e.log.Error("cannot send a heartbeat to the programs that hold windows", "reason", err)
		}
	}
	if e.ordered && time.Now().After(e.until) {
		e.ordered = false
		if err := e.removeCaps(); err != nil {
			e.log.Error("cannot remove caps, so they stay until their lease ends", "reason", err)
		}
		return
	}
	if e.program == nil || e.program.Capped() == 0 && e.pendingSweeps == 0 {
		return
	}
	if err := e.sweep(); err != nil {
		e.log.Error("cannot apply caps to sockets", "reason", err)
	}
}

// removeCaps releases every socket. The caller holds the mutex.
func (e *Executor) removeCaps() error {
	if e.program == nil {
		return nil
	}
	if _, err := e.replace(nil); err != nil {
		return err
	}
	return e.sweep()
}

func (e *Executor) end() {
	e.closed, e.ordered = true, false
	if e.program == nil {
		return
	}
	if err := e.removeCaps(); err != nil {
		e.log.Error("cannot release sockets, so they stay capped until the lease ends", "reason", err)
	}
	if err := e.within(e.program.Close); err != nil {
		e.log.Error("cannot close the programs that hold windows", "reason", err)
	}
	e.program = nil
}

func (e *Executor) sweep() error {
	err := e.within(func() (err error) {
		e.found, err = e.program.Sweep()
		return err
	})
	failure := ""
	if e.found.Refused > 0 {
		failure = unix.Errno(-e.found.Reason).Error()
	}
	if failure != "" && failure != e.failure {
		e.log.Warn("the kernel refuses to cap sockets", "sockets", e.found.Refused, "reason", failure)
	}
	e.failure = failure
	if err == nil {
		e.pendingSweeps = max(e.pendingSweeps-1, 0)
	}
	return err
}
