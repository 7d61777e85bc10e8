// SPDX-License-Identifier: Apache-2.0

// Package caps is what the executors that cap a terminal's own congestion windows have in common: how orders are read, renewed,
// and end, and the maps that their programs see. The executors are agent/caps/structops and, where the kernel does not load our
// congestion control, agent/caps/clamp. A gateway caps by agent/caps/receivewindow.
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
	tendEvery = 200 * time.Millisecond
	tendedFor = 5 * time.Second // an agent that is slow is not dead
	owedMost  = 2               // sweeps after a change: while the first goes on, a socket may be taken as it was before
)

// Way is how windows are held.
type Way struct {
	By     string // as api/agent.proto names it
	Begin  func() (Program, error)
	AtOnce bool   // and not with the first cap
	Lacks  string // what it cannot do, for who orders it
}

// Program holds the sockets of a namespace; its methods are called in that.
type Program interface {
	Capped() int
	Tend() error
	Replace(map[Pair]Bounds) (changed bool, err error)
	Renew(time.Duration) error
	Sweep() (Tally, error)
	Close() error
}

var errEnding = errors.New("the agent is ending")

// Executor holds what a controller ordered of this host's sockets until the lease is over.
type Executor struct {
	way    Way
	within func(func() error) error // runs in the namespace of the host
	log    *slog.Logger

	mutex   sync.Mutex
	program Program   // nil: it has not begun
	until   time.Time // nothing is ordered after that
	ordered bool
	over    bool // it ends, or has: nothing begins any more
	owed    int  // sweeps that must be, also where there are no caps any more
	found   Tally
	said    string // of what was found last
}

// NewExecutor has nothing to do yet.
func NewExecutor(way Way, within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{way: way, within: within, log: log}
}

// Order takes the place of the order before; the same once more renews the lease.
func (e *Executor) Order(order *agentv1.Caps) (string, error) {
	caps, lease, err := read(order)
	if err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.over {
		return "", errEnding
	}
	if err := e.take(caps, lease); err != nil {
		return "", err
	}
	e.until, e.ordered = time.Now().Add(lease), true
	if len(caps) == 0 {
		return "windows are free", nil
	}
	return fmt.Sprintf("%s under %s%s", plural.Of(int(e.found.Held), "socket"), plural.Of(len(caps), "cap"), e.way.Lacks), nil
}

// Run tends it until the context ends, and then lets every window go.
func (e *Executor) Run(ctx context.Context) {
	if e.way.AtOnce {
		e.early()
	}
	clock.Every(ctx, tendEvery, e.tend)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.end()
}

// Report is nil where nothing is ordered.
func (e *Executor) Report() *agentv1.Capping {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !e.ordered {
		return nil
	}
	return &agentv1.Capping{Hand: e.way.By, Held: e.found.Held}
}

// take puts caps in force. Under the mutex.
func (e *Executor) take(caps map[Pair]Bounds, lease time.Duration) error {
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

// replace owes sockets what has changed. Under the mutex.
func (e *Executor) replace(caps map[Pair]Bounds) (changed bool, err error) {
	changed, err = e.program.Replace(caps)
	if changed {
		e.owed = owedMost
	}
	return changed, err
}

// begin is called under the mutex.
func (e *Executor) begin() error {
	return e.within(func() error {
		program, err := e.way.Begin()
		if err != nil {
			return err
		}
		e.program = program
		return program.Tend()
	})
}

// early may fail: the first cap tries it again.
func (e *Executor) early() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.program != nil {
		return
	}
	if err := e.begin(); err != nil {
		e.log.Warn("windows cannot be held", "because", err)
	}
}

func (e *Executor) tend() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.program != nil {
		if err := e.program.Tend(); err != nil {
			e.log.Error("the programs that hold windows hear nothing of their agent", "because", err)
		}
	}
	if e.ordered && time.Now().After(e.until) {
		e.ordered = false
		if err := e.forget(); err != nil {
			e.log.Error("caps end by their lease alone", "because", err)
		}
		return
	}
	if e.program == nil || e.program.Capped() == 0 && e.owed == 0 {
		return
	}
	if err := e.sweep(); err != nil {
		e.log.Error("sockets cannot be seen to", "because", err)
	}
}

// forget gives every socket back. Under the mutex.
func (e *Executor) forget() error {
	if e.program == nil {
		return nil
	}
	if _, err := e.replace(nil); err != nil {
		return err
	}
	return e.sweep()
}

func (e *Executor) end() {
	e.over, e.ordered = true, false
	if e.program == nil {
		return
	}
	if err := e.forget(); err != nil {
		e.log.Error("sockets are let go by the end of the lease alone", "because", err)
	}
	if err := e.within(e.program.Close); err != nil {
		e.log.Error("the programs that hold windows did not end well", "because", err)
	}
	e.program = nil
}

func (e *Executor) sweep() error {
	err := e.within(func() (err error) {
		e.found, err = e.program.Sweep()
		return err
	})
	said := ""
	if e.found.Refused > 0 {
		said = unix.Errno(-e.found.Because).Error()
	}
	if said != "" && said != e.said {
		e.log.Warn("sockets are not held", "sockets", e.found.Refused, "because", said)
	}
	e.said = said
	if err == nil {
		e.owed = max(e.owed-1, 0)
	}
	return err
}
