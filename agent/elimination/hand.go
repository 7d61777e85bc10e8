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

// Hand keeps what a controller ordered of a site's copies: programs stand on its ports as long as these are there, and
// the window is as long as copies take.
type Hand struct {
	within    func(func() error) error // runs in the namespace of the ports
	terminals *portxdp.Programs        // their ports, where packets are numbered
	log       *slog.Logger

	mutex  sync.Mutex
	order  *agentv1.Eliminate // nil: none
	copies *Eliminator
	window sizing
	ports  portstate.Ports // of the paths: why there is no program; nil where it stands
}

// NewHand has nothing to do yet.
func NewHand(within func(func() error) error, terminals *portxdp.Programs, log *slog.Logger) *Hand {
	return &Hand{within: within, terminals: terminals, log: log}
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
func (h *Hand) Order(order *agentv1.Eliminate) (string, error) {
	if err := check(order); err != nil {
		return "", err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(order.GetPaths()) == 0 {
		return "everything passes", h.let()
	}
	if h.order == nil || !proto.Equal(h.order, order) {
		if err := h.begin(order); err != nil {
			return "", err
		}
	}
	h.order = order
	h.terminals.Number(order.GetNumberedPorts())
	h.tend()
	if missing := h.missing(); len(missing) > 0 {
		return "", fmt.Errorf("%s: %s", missing[0].GetPort(), missing[0].GetBecause())
	}
	return fmt.Sprintf("copies by %s are eliminated", plural.Of(len(order.GetPaths()), "path")), nil
}

// Run tends it until the context ends, and then lets everything pass.
func (h *Hand) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, h.see)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := h.let(); err != nil {
		h.log.Error("the programs that eliminate copies did not end well", "because", err)
	}
}

// Report is nil where nothing is ordered.
func (h *Hand) Report() *agentv1.Elimination {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.order == nil {
		return nil
	}
	report := &agentv1.Elimination{WindowUs: uint32(h.window.now.Microseconds()), Missing: h.missing()}
	counters, err := h.copies.Counters()
	if err != nil {
		report.Missing = append(report.Missing, &agentv1.Missing{Port: "all", Because: err.Error()})
	}
	for number, path := range h.order.GetPaths() {
		report.Paths = append(report.Paths, counters[number].message(path.GetName(), h.copies.Native(path.GetPort())))
	}
	return report
}

func (h *Hand) begin(order *agentv1.Eliminate) error {
	if err := h.let(); err != nil {
		h.log.Warn("the programs of the order before did not end well", "because", err)
	}
	copies, err := Load(identities)
	if err != nil {
		return err
	}
	h.copies = copies
	h.window = newSizing(order)
	h.ports = portstate.Ports{}
	return nil
}

func (h *Hand) let() error {
	if h.order == nil {
		return nil
	}
	h.terminals.Number(nil)
	err := h.copies.Close()
	h.order, h.copies, h.ports = nil, nil, nil
	return err
}

func (h *Hand) see() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.order != nil {
		h.tend()
	}
}

// tend sees to the ports, which may have gone and come back, and to the window. Under the mutex.
func (h *Hand) tend() {
	err := h.within(func() error {
		for number, path := range h.order.GetPaths() {
			address, _ := net.ParseMAC(path.GetMac()) // nil where none is written; check has read it
			h.found(path.GetPort(), h.copies.Attach(path.GetPort(), uint32(number), address))
		}
		return nil
	})
	if err != nil {
		h.log.Error("the ports cannot be seen to", "because", err)
		return
	}
	if counters, err := h.copies.Counters(); err == nil {
		h.window.take(counters)
		h.copies.Grow(counters)
	}
	if err := h.copies.Renew(h.window.now, lease); err != nil {
		h.log.Error("copies pass in some seconds", "because", err)
	}
}

// found says once what has changed.
func (h *Hand) found(port string, err error) {
	h.ports.Found(port, err, h.log, portstate.Words{Lost: "nothing is eliminated here", Back: "the port is there"})
}

func (h *Hand) missing() []*agentv1.Missing {
	because := maps.Clone(h.ports)
	terminals := h.terminals.Missing()
	for _, port := range h.order.GetNumberedPorts() {
		because[port] = terminals[port]
	}
	var missing []*agentv1.Missing
	for _, port := range slices.Sorted(maps.Keys(because)) {
		if err := because[port]; err != nil {
			missing = append(missing, &agentv1.Missing{Port: port, Because: err.Error()})
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
