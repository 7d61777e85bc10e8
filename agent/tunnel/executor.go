// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/internal/plural"
)

const (
	tendEvery  = time.Second
	tendSoon   = 50 * time.Millisecond // after a change of the underlay; changes come in groups
	untilKnown = 1280                  // bytes: the minimum MTU of IPv6 (RFC 8200 5)
)

// ErrRestart is the cause of a context that ends because the agent restarts. The tunnels then stay, as after a kill, and
// the next agent takes them over.
var ErrRestart = errors.New("the agent restarts")

// ErrNoGateway is returned by terminals and relays, which have no tunnels.
var ErrNoGateway = errors.New("only a gateway has tunnels: run an agent of role gateway on the host of its bridge")

// Fitter limits the packet length of senders behind ports; 0: no limit.
type Fitter interface {
	Fit(ports []string, largestBytes int)
	Missing() map[string]error // by port
}

// Executor keeps the tunnels that a controller ordered.
type Executor struct {
	outside         func(func() error) error // runs where the tunnels' packets leave
	inside          func(func() error) error // runs in the namespace of the ports
	fitter          Fitter
	log             *slog.Logger
	searchEvery     time.Duration // interval between searches for a larger MTU
	settles         time.Duration // as the constant
	private         PrivateKey
	underlayChanged chan struct{} // signals a change of the underlay

	mutex     sync.Mutex
	order     *agentv1.Tunnels // nil: none
	host      *environment
	release   func() error // releases what all tunnels share
	tunnels   map[string]*tunnel
	announced int             // the limit that senders have; 0: none yet
	leads     map[string]bool // ports of LANs that were set up or down, as logged
}

// NewExecutor returns an executor without an order.
func NewExecutor(outside, inside func(func() error) error, private PrivateKey, fitter Fitter, log *slog.Logger) *Executor {
	return &Executor{
		outside: outside, inside: inside, private: private, fitter: fitter, log: log, searchEvery: searchInterval, settles: settles,
		underlayChanged: make(chan struct{}, 1),
		tunnels:         map[string]*tunnel{}, leads: map[string]bool{},
	}
}

// Order replaces the previous order. Unchanged tunnels stay as they are.
func (e *Executor) Order(order *agentv1.Tunnels) (string, error) {
	if err := check(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(order.GetTunnels()) == 0 {
		return "no tunnels", e.removeAll()
	}
	if e.order == nil || !proto.Equal(e.order, order) {
		if err := e.begin(order); err != nil {
			return "", errors.Join(err, e.removeAll())
		}
	}
	e.tend()
	for _, each := range order.GetTunnels() {
		if reason := e.tunnels[each.GetName()].trouble(); reason != nil {
			return "", fmt.Errorf("%s: %w", each.GetName(), reason)
		}
	}
	return fmt.Sprintf("%s created, waiting for the other end", plural.Of(len(order.GetTunnels()), "tunnel")), nil
}

// Run maintains the tunnels until the context ends, and then removes them unless the agent restarts.
func (e *Executor) Run(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	var soon <-chan time.Time
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			e.tick()
		case <-e.underlayChanged:
			if soon == nil {
				soon = time.After(tendSoon)
			}
		case <-soon:
			soon = nil
			e.tick()
		case <-ctx.Done():
		}
	}
	if errors.Is(context.Cause(ctx), ErrRestart) {
		return
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := e.removeAll(); err != nil {
		e.log.Error("cannot remove the tunnels", "reason", err)
	}
}

// Report returns nil without an order.
func (e *Executor) Report() *agentv1.Tunnelling {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order == nil {
		return nil
	}
	report := &agentv1.Tunnelling{LargestBytes: uint32(e.largest())}
	for _, each := range e.order.GetTunnels() {
		report.Ends = append(report.Ends, e.tunnels[each.GetName()].message())
	}
	missing := e.fitter.Missing()
	for _, port := range e.order.GetFittedPorts() {
		if reason := missing[port]; reason != nil {
			report.Missing = append(report.Missing, &agentv1.Missing{Port: port, Reason: reason.Error()})
		}
	}
	return report
}

func (e *Executor) begin(order *agentv1.Tunnels) error {
	if e.host == nil {
		if err := e.openShared(); err != nil {
			return err
		}
	}
	wanted := map[string]*agentv1.Tunnel{}
	for _, each := range order.GetTunnels() {
		wanted[each.GetName()] = each
	}
	for name, t := range e.tunnels {
		if !proto.Equal(t.order, wanted[name]) {
			delete(e.tunnels, name)
			if err := t.finish(); err != nil {
				e.log.Warn("cannot close a tunnel", "tunnel", name, "reason", err)
			}
		}
	}
	if err := e.removeAllBut(order.GetTunnels()); err != nil {
		return err
	}
	var begun []*tunnel
	for name, each := range wanted {
		if e.tunnels[name] == nil {
			t := begin(each, e.host, e.log)
			e.tunnels[name] = t
			begun = append(begun, t)
		}
	}
	e.order, e.announced = order, 0
	for _, t := range begun {
		t.run()
	}
	return nil
}

// removeAllBut removes our devices and routes that belong to none of these tunnels, also those of a killed agent.
func (e *Executor) removeAllBut(these []*agentv1.Tunnel) error {
	k := e.host.kernel
	found, err := devices(k.outer)
	if err != nil {
		return err
	}
	for _, each := range found {
		stays := slices.ContainsFunc(these, func(t *agentv1.Tunnel) bool { return outerName(t.GetVni()) == each.name })
		if isOuter(each) && !stays {
			if err := remove(k.outer, each); err != nil { // and with it the VXLAN device
				return err
			}
		}
	}
	found, err = devices(k.inner)
	if err != nil {
		return err
	}
	for _, each := range found {
		stays := slices.ContainsFunc(these, func(t *agentv1.Tunnel) bool {
			return t.GetPort() == each.name && strings.HasPrefix(each.alias, fmt.Sprintf("%s%d ", mark, t.GetVni()))
		})
		if k.ours(each) && !stays {
			if err := k.remove(each); err != nil {
				return err
			}
		}
	}
	for number := range MaxNumber {
		stays := slices.ContainsFunc(these, func(t *agentv1.Tunnel) bool { return numberOf(t) == number && t.GetDevice() != "" })
		if !stays {
			if err := k.unsteer(number); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Executor) tick() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.order != nil {
		e.tend()
	}
}

// tend maintains devices and the MTU that senders learn. The caller holds the mutex.
func (e *Executor) tend() {
	for _, t := range e.tunnels {
		t.tend()
	}
	if up := e.alive(); up || !e.young() {
		e.lead(up)
	}
	e.follow()
	largest := e.largest()
	if largest == 0 {
		largest = untilKnown
	}
	if largest != e.announced {
		e.log.Info("the longest packet that passes the tunnels changed", "bytes", largest)
		e.fitter.Fit(e.order.GetFittedPorts(), largest)
		e.announced = largest
	}
}

// alive reports whether any tunnel is up.
func (e *Executor) alive() bool {
	for _, t := range e.tunnels {
		if t.alive() {
			return true
		}
	}
	return false
}

// young reports whether no tunnel is old enough to be dead. After a restart a LAN stays where the last agent led it.
func (e *Executor) young() bool {
	for _, t := range e.tunnels {
		if t.host.now()-t.begun > deadAfter {
			return false
		}
	}
	return true
}

// lead leads the host's LANs to the bridge. The host ignores routes over the peer of a port that is down, and its own
// default route remains.
func (e *Executor) lead(up bool) {
	for _, port := range e.order.GetLanPorts() {
		found, there, err := find(e.host.kernel.inner, port, 0)
		if err == nil && there && found.up != up {
			err = e.host.kernel.set(found, up)
			if err == nil && !up {
				err = e.inside(forgetFlows)
			}
		}
		if err != nil {
			e.log.Error("cannot lead a LAN", "port", port, "up", up, "reason", err)
			continue
		}
		if before, said := e.leads[port]; there && (!said || before != up) {
			e.leads[port] = up
			if up {
				e.log.Info("the LAN is led to the tunnels", "port", port)
			} else {
				e.log.Warn("no tunnel is up: this host routes the LAN itself", "port", port)
			}
		}
	}
}

// largest returns the packet length that passes every live tunnel; 0: no tunnel lives, or no length is known yet.
func (e *Executor) largest() int {
	largest := 0
	for _, t := range e.tunnels {
		if pathMTU := t.pathMTU(); pathMTU != 0 && (largest == 0 || pathMTU < largest) {
			largest = pathMTU
		}
	}
	return largest
}
