// SPDX-License-Identifier: Apache-2.0

// Package host represents one machine, or one of its network namespaces, to the agent. The session takes the hello,
// reports and the execution of orders from it.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"bicast/agent/elimination"
	"bicast/agent/failover"
	"bicast/agent/host/capability"
	"bicast/agent/intercept"
	"bicast/agent/mptcpctl"
	"bicast/agent/portxdp"
	"bicast/agent/probing"
	"bicast/agent/probing/traceroute"
	"bicast/agent/relayhost"
	"bicast/agent/report"
	"bicast/agent/session"
	"bicast/agent/trust"
	"bicast/agent/tunnel"
	"bicast/agent/tunnel/wireguard"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/mptcp"
)

// Version is the agent's version. The build sets it (setup/agent.sh, setup/agents.sh).
var Version = "unreleased"

// Host is a network namespace with the executors of all orders.
type Host struct {
	role         agentv1.Role
	kernel       capability.Kernel
	links        *report.Links
	reader       *report.Reader
	executor     *mptcpctl.Executor
	failovers    *failover.Failovers
	copies       *elimination.Executor // nil on a terminal or a relay
	tunnels      *tunnel.Executor      // nil on a terminal or a relay
	tunnelKeys   func() [][]byte       // nil on a terminal or a relay
	terminals    *portxdp.Programs     // nil on a terminal or a relay; serves elimination and tunnels
	interception *intercept.Executor   // nil on a terminal or a relay
	windows      *windows              // nil on a relay
	measuring    *probing.Executor
	traceroute   *traceroute.Executor
	relaying     *relayhost.Executor // nil on a terminal or a gateway

	mutex sync.Mutex              // guards reader, which remembers its last reading
	tells []func(*agentv1.Report) // the executors' parts of a report
}

// Settings are the choices at an agent's start.
type Settings struct {
	Netns        string // the argument of mptcp.Open
	Role         agentv1.Role
	Sharers      string                         // the Unix socket that lists the sharers of a terminal's access point
	BlocksCgroup string                         // the cgroup (v2) whose sockets get the advised block size; empty: none
	Identity     func() (trust.Identity, error) // the current identity from joining
	Guard        []string                       // the command that holds the path manager
	Leases       string                         // the file with dnsmasq's leases for the LANs of a gateway's host
	Log          *slog.Logger
}

// Open opens a host in a network namespace. The hello reports what the kernel lacks.
func Open(s Settings) (*Host, error) {
	netns, role, log := s.Netns, s.Role, s.Log
	h := &Host{role: role}
	h.kernel.Handle, h.kernel.Missing = mptcp.Open(netns)
	if errors.Is(h.kernel.Missing, mptcp.NoNamespace) {
		return nil, h.kernel.Missing
	}
	if h.kernel.Missing != nil {
		h.kernel.Handle = nil
	}
	var err error
	if h.links, err = h.openLinks(netns); err != nil {
		h.Close()
		return nil, err
	}
	h.reader = &report.Reader{Connections: h.connections, Links: h.links.Read, Monotonic: clock.Monotonic}
	if h.kernel.Handle != nil {
		h.executor = &mptcpctl.Executor{Role: role, Kernel: h.kernel.Handle, Addresses: h.links.Addresses}
		h.failovers = failover.New(role, h.kernel.Handle.Subflows, h.executor.Prefer, log)
	}
	within := func(work func() error) error { return h.inside(netns, work) }
	h.windows = openWindows(s, within)
	h.measuring, h.traceroute = probing.NewExecutor(within, log), traceroute.NewExecutor(within)
	if role == agentv1.Role_ROLE_GATEWAY {
		h.reader.Devices = report.Leases(s.Leases, log)
		outside := func(work func() error) error { return work() }
		h.measuring, h.traceroute = probing.NewExecutor(outside, log), traceroute.NewExecutor(outside) // tunnels leave here, not from the bridge's namespace
		h.terminals = portxdp.New(within, log)
		h.copies = elimination.NewExecutor(within, h.terminals, log)
		h.tunnels = tunnel.NewExecutor(outside, within, tunnelKey(s.Identity), h.terminals, log)
		h.tunnelKeys = publicKeys(tunnelKey(s.Identity), log)
		h.interception = intercept.NewExecutor(h.kernel.Handle, within, s.Identity, s.Guard, log)
	}
	if role == agentv1.Role_ROLE_RELAY {
		h.relaying = relayhost.NewExecutor(within, func(ctx context.Context, work func() error) error {
			if h.kernel.Handle == nil {
				return within(work)
			}
			return h.kernel.Handle.Dial(ctx, work)
		}, s.Identity, log)
	}
	h.tells = h.parts()
	return h, nil
}

// parts returns the functions that fill in the executors' parts of a report.
func (h *Host) parts() (all []func(*agentv1.Report)) {
	capping := &part[*agentv1.Capping]{read: h.windows.report}
	measured := &part[measured]{read: func() (m measured) {
		m.answering, m.health = h.measuring.Report()
		return m
	}}
	all = append(all, func(r *agentv1.Report) { r.Capping = capping.now() }, func(r *agentv1.Report) {
		now := measured.now()
		r.Answering, r.Health = now.answering, now.health
	})
	if h.copies != nil {
		one := &part[*agentv1.Elimination]{read: h.copies.Report}
		all = append(all, func(r *agentv1.Report) { r.Elimination = one.now() })
	}
	if h.tunnels != nil {
		one, other := &part[*agentv1.Tunnelling]{read: h.tunnels.Report}, &part[*agentv1.InterceptionReport]{read: h.interception.Report}
		all = append(all, func(r *agentv1.Report) { r.Tunnelling = one.now() }, func(r *agentv1.Report) { r.Interception = other.now() })
	}
	if h.relaying != nil {
		one := &part[*agentv1.RelayReport]{read: h.relaying.Report}
		all = append(all, func(r *agentv1.Report) { r.Relay = one.now() })
	}
	return all
}

type measured struct {
	answering *agentv1.Answering
	health    []*agentv1.PathHealth
}

func (h *Host) openLinks(netns string) (links *report.Links, err error) {
	err = h.inside(netns, func() (err error) {
		links, err = report.OpenLinks()
		return err
	})
	return links, err
}

// inside runs a function in the host's network namespace.
func (h *Host) inside(netns string, work func() error) error {
	switch {
	case h.kernel.Handle != nil:
		return h.kernel.Handle.Do(work)
	case netns == "":
		return work()
	default:
		return fmt.Errorf("cannot enter the network namespace %s: %w", netns, h.kernel.Missing)
	}
}

// Close closes the host's kernel sockets.
func (h *Host) Close() error {
	var failures []error
	if h.kernel.Handle != nil {
		failures = append(failures, h.kernel.Handle.Close())
	}
	if h.links != nil {
		failures = append(failures, h.links.Close())
	}
	return errors.Join(failures...)
}

// Run maintains what the controller ordered. It returns when the context and all executors have ended.
func (h *Host) Run(ctx context.Context) {
	parts := []func(context.Context){h.measuring.Run, h.traceroute.Run}
	if h.failovers != nil {
		parts = append(parts, h.failovers.Run)
	}
	if h.terminals != nil {
		parts = append(parts, h.terminals.Run)
	}
	if h.copies != nil {
		parts = append(parts, h.copies.Run)
	}
	if h.tunnels != nil {
		parts = append(parts, h.tunnels.Run, h.interception.Run)
	}
	if h.relaying != nil {
		parts = append(parts, h.relaying.Run)
	}
	parts = append(parts, h.windows.parts()...)
	var running sync.WaitGroup
	for _, part := range parts {
		running.Add(1)
		go func() {
			defer running.Done()
			part(ctx)
		}()
	}
	running.Wait()
}

// Hello probes the host's capabilities again and returns them.
func (h *Host) Hello() *agentv1.Hello {
	hello := &agentv1.Hello{
		Protocol: session.Protocol, Version: Version, Role: h.role, Kernel: release(),
		Capabilities: h.kernel.Probe(h.role), PathManager: h.kernel.PathManager(),
	}
	addresses, _ := h.links.Addresses() // a failure here also fails the first report, which logs it
	for _, address := range addresses {
		hello.Addresses = append(hello.Addresses, address.String())
	}
	if h.tunnelKeys != nil {
		hello.TunnelKeys = h.tunnelKeys()
	}
	return hello
}

// tunnelKey returns the private keys of this host's tunnels.
func tunnelKey(identity func() (trust.Identity, error)) tunnel.PrivateKey {
	return func(number int) (wireguard.Key, error) {
		one, err := identity()
		if err != nil {
			return wireguard.Key{}, err
		}
		return one.TunnelKey(number)
	}
}

// publicKeys returns the public keys of this host's tunnels, which the controller gives to the other site.
func publicKeys(private tunnel.PrivateKey, log *slog.Logger) func() [][]byte {
	return func() (keys [][]byte) {
		for number := range tunnel.MaxNumber {
			key, err := private(number)
			if err == nil {
				key, err = wireguard.Public(key)
			}
			if err != nil {
				log.Error("this host has no keys for tunnels", "reason", err)
				return nil
			}
			keys = append(keys, key[:])
		}
		return keys
	}
}

// Report reads the kernel now. It asks all executors for their parts at the same time, each with a short timeout.
func (h *Host) Report() (*agentv1.Report, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	report, err := h.reader.Read()
	if err != nil {
		return report, err
	}
	var told sync.WaitGroup
	for _, tell := range h.tells {
		told.Add(1)
		go func() {
			defer told.Done()
			tell(report)
		}()
	}
	told.Wait()
	return report, nil
}

// Alive returns after the report that is being read, if there is one. It hangs if reading the kernel hangs.
func (h *Host) Alive() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
}

// Fired returns the failovers that fired.
func (h *Host) Fired() <-chan *agentv1.FailoverFired {
	if h.failovers == nil {
		return nil
	}
	return h.failovers.Fired()
}

// Probed returns the outcomes of probes.
func (h *Host) Probed() <-chan *agentv1.ProbeReport { return h.measuring.Probed() }

// DistancesMeasured delivers the results of MeasureDistances orders.
func (h *Host) DistancesMeasured() <-chan *agentv1.DistancesMeasured {
	return h.traceroute.DistancesMeasured()
}

// Obey executes an order. The result names an unknown order, or the reason why this host cannot execute it.
func (h *Host) Obey(ctx context.Context, directive *agentv1.Directive) *agentv1.Result {
	switch order := directive.GetOrder().(type) {
	case *agentv1.Directive_Prefer:
		return h.prefer(ctx, order.Prefer)
	case *agentv1.Directive_Arm:
		if err := h.cannotSteer(); err != nil {
			return refused(err)
		}
		return answered(h.failovers.Arm(order.Arm))
	case *agentv1.Directive_Disarm:
		if h.failovers == nil {
			return &agentv1.Result{Done: true, Answer: "this host has no armed failovers"}
		}
		return &agentv1.Result{Done: true, Answer: h.failovers.Disarm(order.Disarm.GetName())}
	case *agentv1.Directive_Eliminate:
		if h.copies == nil {
			return refused(elimination.ErrNoGateway)
		}
		return answered(h.copies.Order(order.Eliminate))
	case *agentv1.Directive_Tunnels:
		if h.tunnels == nil {
			return refused(tunnel.ErrNoGateway)
		}
		return answered(h.tunnels.Order(order.Tunnels))
	case *agentv1.Directive_Intercept:
		if h.interception == nil {
			return refused(intercept.ErrNoGateway)
		}
		return answered(h.interception.Order(order.Intercept))
	case *agentv1.Directive_Choices:
		if h.interception == nil {
			return refused(intercept.ErrNoGateway)
		}
		return answered(h.interception.Choose(order.Choices))
	case *agentv1.Directive_Caps:
		return answered(h.windows.order(order.Caps))
	case *agentv1.Directive_Answer:
		return answered(h.measuring.Answer(order.Answer))
	case *agentv1.Directive_Health:
		return answered(h.measuring.Health(order.Health))
	case *agentv1.Directive_Probe:
		return answered(h.measuring.Probe(directive.GetId(), order.Probe))
	case *agentv1.Directive_MeasureDistances:
		return answered(h.traceroute.Order(directive.GetId(), order.MeasureDistances))
	case *agentv1.Directive_Relay:
		if h.relaying == nil {
			return refused(relayhost.ErrNoRelay)
		}
		return answered(h.relaying.Order(order.Relay))
	default:
		return refused(fmt.Errorf("this agent (%s, protocol %d) does not know the order: install a newer agent", Version, session.Protocol))
	}
}

func (h *Host) prefer(ctx context.Context, order *agentv1.Prefer) *agentv1.Result {
	if err := h.cannotSteer(); err != nil {
		return refused(err)
	}
	preference, err := mptcpctl.ParsePreference(order)
	if err != nil {
		return refused(err)
	}
	outcome, err := h.executor.Prefer(ctx, preference)
	result := &agentv1.Result{Done: err == nil, Answer: outcome.Answer, Connections: uint32(outcome.Connections)}
	if err != nil {
		result.Answer = err.Error()
	}
	return result
}

func (h *Host) cannotSteer() error {
	switch {
	case h.executor == nil:
		return h.kernel.Missing
	case h.role == agentv1.Role_ROLE_GATEWAY:
		return mptcpctl.ErrGateway
	default:
		return nil
	}
}

func (h *Host) connections() ([]mptcp.Connection, error) {
	if h.kernel.Handle == nil {
		return nil, nil // the hello contains the reason
	}
	connections, err := h.kernel.Handle.Connections()
	switch {
	case err != nil:
		return nil, err
	case h.relaying != nil && h.relaying.Stands(): // connections to servers use no path of a terminal
		connections = slices.DeleteFunc(connections, func(c mptcp.Connection) bool { return c.Token == 0 && !c.Serves })
	case h.interception != nil: // intercepted connections of terminals use no uplink
		own, err := h.links.Addresses()
		if err != nil {
			return nil, err
		}
		connections = slices.DeleteFunc(connections, func(c mptcp.Connection) bool {
			return c.Token == 0 && !slices.Contains(own, c.Subflows[0].Local.Addr())
		})
	}
	return connections, nil
}

func answered(said string, err error) *agentv1.Result {
	if err != nil {
		return refused(err)
	}
	return &agentv1.Result{Done: true, Answer: said}
}

func refused(why error) *agentv1.Result { return &agentv1.Result{Answer: why.Error()} }

func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
