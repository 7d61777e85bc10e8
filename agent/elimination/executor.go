// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/agent/portxdp"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/internal/portstate"
)

const (
	identities = ways << 17 // 8 MiB: more than three seconds at 100,000 packets per second
	tendEvery  = time.Second
	lease      = 3 * tendEvery // of the program without renewal
	maxWindow  = 10 * time.Second
)

// ErrNoGateway is the error of terminals and relays, which eliminate nothing.
var ErrNoGateway = errors.New("only a gateway eliminates copies: run an agent of role gateway on the host of its bridge")

// Executor carries out the controller's orders to eliminate copies: it keeps programs attached to ports that come and go,
// and adapts the window to the delay between copies.
type Executor struct {
	within    func(func() error) error // runs in the namespace of the ports
	terminals *portxdp.Programs        // numbers packets at the ports of terminals
	log       *slog.Logger

	mutex  sync.Mutex
	order  *agentv1.Eliminate // nil: none
	copies *Eliminator
	window sizing
	ports  portstate.Ports // of the paths, with the reason why the program is not attached; nil: attached
}

// NewExecutor returns an executor without an order.
func NewExecutor(within func(func() error) error, terminals *portxdp.Programs, log *slog.Logger) *Executor {
	return &Executor{within: within, terminals: terminals, log: log}
}

// Probe returns why this kernel cannot eliminate copies, or nil if it loads both programs.
func Probe() error {
	copies, err := Load(ways)
	if err != nil {
		return err
	}
	return errors.Join(portxdp.Probe(), copies.Close())
}

// Order replaces the previous order. An equal order changes nothing.
func (e *Executor) Order(order *agentv1.Eliminate) (string, error) {
	if err := check(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(order.GetPaths()) == 0 {
		return "no paths: all packets pass", e.unload()
	}
	if e.order == nil || !proto.Equal(e.order, order) {
		if err := e.begin(order); err != nil {
			return "", err
		}
	}
	e.order = order
	e.terminals.Number(order.GetNumberedPorts())
	e.tend()
	if missing := e.missing(); len(missing) > 0 {
		return "", fmt.Errorf("%s: %s", missing[0].GetPort(), missing[0].GetReason())
	}
	return fmt.Sprintf("eliminating copies of %s", plural.Of(len(order.GetPaths()), "path")), nil
}

// Run maintains the programs until the context ends, and then detaches them.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, e.tick)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.unload(); err != nil {
		e.log.Error("cannot unload the programs that eliminate copies", "reason", err)
	}
}

// Report returns nil without an order.
func (e *Executor) Report() *agentv1.Elimination {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order == nil {
		return nil
	}
	report := &agentv1.Elimination{WindowUs: uint32(e.window.now.Microseconds()), Missing: e.missing()}
	counters, err := e.copies.Counters()
	if err != nil {
		report.Missing = append(report.Missing, &agentv1.Missing{Port: "all", Reason: err.Error()})
	}
	for number, path := range e.order.GetPaths() {
		report.Paths = append(report.Paths, counters[number].message(path.GetName(), e.copies.Native(path.GetPort())))
	}
	return report
}

func (e *Executor) begin(order *agentv1.Eliminate) error {
	if err := e.unload(); err != nil {
		e.log.Warn("cannot unload the programs of the previous order", "reason", err)
	}
	copies, err := Load(identities)
	if err != nil {
		return err
	}
	e.copies = copies
	e.window = newSizing(order)
	e.ports = portstate.Ports{}
	return nil
}

func (e *Executor) unload() error {
	if e.order == nil {
		return nil
	}
	e.terminals.Number(nil)
	err := e.copies.Close()
	e.order, e.copies, e.ports = nil, nil, nil
	return err
}

func (e *Executor) tick() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order != nil {
		e.tend()
	}
}

// tend attaches programs to ports that came back, and adapts the window. The caller holds the mutex.
func (e *Executor) tend() {
	err := e.within(func() error {
		for number, path := range e.order.GetPaths() {
			address, _ := net.ParseMAC(path.GetMac()) // nil: the device's own; check has refused invalid ones
			e.setState(path.GetPort(), e.copies.Attach(path.GetPort(), uint32(number), address))
		}
		return nil
	})
	if err != nil {
		e.log.Error("cannot enter the network namespace of the ports", "reason", err)
		return
	}
	if counters, err := e.copies.Counters(); err == nil {
		e.window.update(counters)
		e.copies.Grow(counters)
	}
	if err := e.copies.Renew(e.window.now, lease); err != nil {
		e.log.Error("cannot renew the lease of elimination, so copies will pass after it", "reason", err)
	}
}

// setState records the state of a port, and logs changes once.
func (e *Executor) setState(port string, err error) {
	e.ports.Found(port, err, e.log, portstate.Words{Lost: "copies are not eliminated at a port", Back: "copies are eliminated at a port again"})
}

func (e *Executor) missing() []*agentv1.Missing {
	reason := maps.Clone(e.ports)
	terminals := e.terminals.Missing()
	for _, port := range e.order.GetNumberedPorts() {
		reason[port] = terminals[port]
	}
	var missing []*agentv1.Missing
	for _, port := range slices.Sorted(maps.Keys(reason)) {
		if err := reason[port]; err != nil {
			missing = append(missing, &agentv1.Missing{Port: port, Reason: err.Error()})
		}
	}
	return missing
}

func (c Counters) message(name string, native bool) *agentv1.PathCopies {
	counted := len(c.Skew)
	for counted > 0 && c.Skew[counted-1] == 0 {
		counted--
	}
	return &agentv1.PathCopies{
		Name: name, Native: native, First: c.First, Eliminated: c.Eliminated, Late: c.Late, Rogue: c.Rogue,
		Evicted: c.Evicted, Unidentified: c.Unidentified, NotForwarded: c.NotForwarded, Skew: c.Skew[:counted],
	}
}

func check(order *agentv1.Eliminate) error {
	paths := order.GetPaths()
	floor, ceiling := bounds(order)
	names, ports := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		names[path.GetName()], ports[path.GetPort()] = true, true
		if address, err := net.ParseMAC(path.GetMac()); path.GetMac() != "" && (err != nil || len(address) != 6) {
			return fmt.Errorf("the path %s has the MAC address %q, expected one like 02:00:00:00:00:01", path.GetName(), path.GetMac())
		}
	}
	for _, port := range order.GetNumberedPorts() {
		ports[port] = true
	}
	switch {
	case len(paths) == 0:
		return nil
	case len(paths) < 2 || len(paths) > MaxPaths:
		return fmt.Errorf("%s with copies, expected 2 to %d", plural.Of(len(paths), "path"), MaxPaths)
	case len(names) < len(paths) || len(ports) < len(paths)+len(order.GetNumberedPorts()):
		return errors.New("a path or a port is listed twice, expected unique ones")
	case names[""] || ports[""]:
		return errors.New("a path or a port has an empty name")
	case floor <= 0 || ceiling < floor || ceiling > maxWindow:
		return fmt.Errorf("a window of %v to %v, expected 1 ms to %v", floor, ceiling, maxWindow)
	}
	return nil
}
