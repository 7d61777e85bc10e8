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
	identities = 1 << 18 // 8.5 MiB: at 100,000 packets a second those of more than two seconds
	tendEvery  = time.Second
	lease      = 3 * tendEvery // of the program, when nobody tends it
	longest    = 10 * time.Second
)

// ErrNoGateway is why a terminal and a relay eliminate nothing.
var ErrNoGateway = errors.New("copies come in by the uplinks of a gateway: run an agent of role gateway where its bridge is")

// Executor keeps what a controller ordered of a site's copies: programs stand on its ports as long as these are there, and
// the window is as long as copies take.
type Executor struct {
	within    func(func() error) error // runs in the namespace of the ports
	terminals *portxdp.Programs        // their ports, where packets are numbered
	log       *slog.Logger

	mutex  sync.Mutex
	order  *agentv1.Eliminate // nil: none
	copies *Eliminator
	window sizing
	ports  portstate.Ports // of the paths: why there is no program; nil where it stands
}

// NewExecutor has nothing to do yet.
func NewExecutor(within func(func() error) error, terminals *portxdp.Programs, log *slog.Logger) *Executor {
	return &Executor{within: within, terminals: terminals, log: log}
}

// Probe tells why this kernel could not eliminate; nil where it takes both programs.
func Probe() error {
	copies, err := Load(ways)
	if err != nil {
		return err
	}
	return errors.Join(portxdp.Probe(), copies.Close())
}

// Order takes the place of the order before; the same once more changes nothing.
func (e *Executor) Order(order *agentv1.Eliminate) (string, error) {
	if err := check(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(order.GetPaths()) == 0 {
		return "everything passes", e.let()
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
	return fmt.Sprintf("copies by %s are eliminated", plural.Of(len(order.GetPaths()), "path")), nil
}

// Run tends it until the context ends, and then lets everything pass.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, e.see)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.let(); err != nil {
		e.log.Error("the programs that eliminate copies did not end well", "reason", err)
	}
}

// Report is nil where nothing is ordered.
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
	if err := e.let(); err != nil {
		e.log.Warn("the programs of the order before did not end well", "reason", err)
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

func (e *Executor) let() error {
	if e.order == nil {
		return nil
	}
	e.terminals.Number(nil)
	err := e.copies.Close()
	e.order, e.copies, e.ports = nil, nil, nil
	return err
}

func (e *Executor) see() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order != nil {
		e.tend()
	}
}

// tend sees to the ports, which may have gone and come back, and to the window. Under the mutex.
func (e *Executor) tend() {
	err := e.within(func() error {
		for number, path := range e.order.GetPaths() {
			address, _ := net.ParseMAC(path.GetMac()) // nil where none is written; check has read it
			e.found(path.GetPort(), e.copies.Attach(path.GetPort(), uint32(number), address))
		}
		return nil
	})
	if err != nil {
		e.log.Error("the ports cannot be seen to", "reason", err)
		return
	}
	if counters, err := e.copies.Counters(); err == nil {
		e.window.take(counters)
		e.copies.Grow(counters)
	}
	if err := e.copies.Renew(e.window.now, lease); err != nil {
		e.log.Error("copies pass in some seconds", "reason", err)
	}
}

// found says once what has changed.
func (e *Executor) found(port string, err error) {
	e.ports.Found(port, err, e.log, portstate.Words{Lost: "nothing is eliminated here", Back: "the port is there"})
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
	case len(paths) < 2 || len(paths) > PathsMost:
		return fmt.Errorf("%s to eliminate copies by, expected 2 to %d", plural.Of(len(paths), "path"), PathsMost)
	case len(names) < len(paths) || len(ports) < len(paths)+len(order.GetNumberedPorts()):
		return errors.New("a path or a port is named twice: each is the place of one")
	case names[""] || ports[""]:
		return errors.New("a path or a port has no name")
	case floor <= 0 || ceiling < floor || ceiling > longest:
		return fmt.Errorf("a window of %v to %v, expected at least 1 ms, and at most %v", floor, ceiling, longest)
	}
	return nil
}
