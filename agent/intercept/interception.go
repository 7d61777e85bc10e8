// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"bicast/agent/mptcpctl/pathmanager"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/ratelog"
	"bicast/mptcp"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

// holdWithin is how long the first order waits for the path manager: earlier connections never get a second subflow.
const holdWithin = 3 * time.Second

// interception is the state of an order in force.
type interception struct {
	within           func(func() error) error
	dial             func(context.Context, func() error) error // runs work that waits for relays and servers
	identity         func() (trust.Identity, error)
	log              *slog.Logger
	ctx              context.Context
	cancel           context.CancelFunc
	parts            sync.WaitGroup
	blackholeTimeout []byte // the previous value of blackholeSysctl

	proxy     *proxy.Proxy
	subflows  *subflows
	relays    map[string]*proxy.Relay
	terminals map[string]*terminalState
	spec      spec
	plan      proxy.Plan
	logged    map[*proxy.Relay]string // the last logged reason why each is unreachable
	intake    intake
	blocked   error // a firewall seems to block the proxy
}

// terminalState is a terminal of the order, with its path to the relays.
type terminalState struct {
	terminal
	way     *proxy.Terminal
	locals  *proxy.Locals
	watches bool // keeps a connection to each relay, to notice when one is unreachable
}

func newInterception(h *Executor) (s *interception, err error) {
	s = &interception{
		within: h.within, dial: h.kernel.Dial, identity: h.identity, log: h.log,
		subflows: &subflows{kernel: h.kernel, warnings: &ratelog.Logger{Log: h.log}, live: map[mptcp.Token]*relayConnection{}}, relays: map[string]*proxy.Relay{},
		terminals: map[string]*terminalState{}, logged: map[*proxy.Relay]string{},
		plan: proxy.Plan{Choices: proxy.Chosen(nil), Undecided: &proxy.Undecided{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.proxy, err = proxy.Open(s.ctx, proxy.Settings{Within: h.within, Mark: divert.Answering, Log: h.log, Failed: func(err error) {
		h.log.Error("interception of terminals' connections has failed", "reason", err)
	}})
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.holdPathManager(h.guard)
	s.part(s.subflows.run)
	if err := h.within(s.disableBlackhole); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

func (s *interception) part(work func(context.Context)) {
	s.parts.Add(1)
	go func() {
		defer s.parts.Done()
		work(s.ctx)
	}()
}

// holdPathManager puts new connections under the userspace path manager.
func (s *interception) holdPathManager(guard []string) {
	settled := make(chan struct{})
	var once sync.Once
	supervisor := pathmanager.GuardSupervisor{Command: guard, Log: s.log, Changed: func(bool) { once.Do(func() { close(settled) }) }}
	s.part(supervisor.Run)
	select {
	case <-settled:
	case <-time.After(holdWithin):
		s.log.Warn("the userspace path manager is not in use yet: new connections have one subflow")
	}
}

// apply replaces the previous order. Connections of unchanged terminals and relays continue.
func (s *interception) apply(w spec) error {
	plan, relays, terminals := s.plan, s.relays, s.terminals
	s.relays, s.terminals = s.relaysOf(w), s.terminalsOf(w)
	s.subflows.setOnward(w.relays)
	s.plan.Block, s.plan.Relays = w.block, nil
	for _, each := range w.relays {
		s.plan.Relays = append(s.plan.Relays, s.relays[each.name])
	}
	s.setTerminals(s.terminals, terminals) // before nft redirects the first connection
	if err := s.redirect(w); err != nil {
		s.relays, s.terminals, relays, terminals = relays, terminals, s.relays, s.terminals
		s.subflows.setOnward(s.spec.relays)
		s.plan = plan
		s.applyPlan()
		s.endRemoved(relays, terminals)
		return err
	}
	s.spec = w
	s.setTerminals(s.terminals)
	s.endRemoved(relays, terminals)
	s.watch(w)
	return nil
}

// setTerminals lets the proxy accept connections of these terminals.
func (s *interception) setTerminals(all ...map[string]*terminalState) {
	s.plan.Terminals = map[netip.Addr]*proxy.Terminal{}
	for _, terminals := range all {
		for _, each := range terminals {
			for _, address := range each.addresses {
				s.plan.Terminals[address] = each.way
			}
		}
	}
	s.applyPlan()
}

// endRemoved ends the relays and terminals that are not in the current order.
func (s *interception) endRemoved(relays map[string]*proxy.Relay, terminals map[string]*terminalState) {
	for name, each := range relays {
		if s.relays[name] != each {
			each.End()
		}
	}
	for name, each := range terminals {
		if s.terminals[name] != each {
			each.way.End()
		}
	}
}

// applyPlan changes the proxy's plan for new connections.
func (s *interception) applyPlan() {
	plan := s.plan
	s.proxy.By(&plan)
}

func (s *interception) relaysOf(w spec) map[string]*proxy.Relay {
	relays := map[string]*proxy.Relay{}
	for _, each := range w.relays {
		one := s.relays[each.name]
		if one == nil || one.At != each.at || one.KeySum != each.keySum {
			one = &proxy.Relay{Name: each.name, At: each.at, KeySum: each.keySum}
			one.Begin(s.ctx)
		}
		one.Drain(each.draining)
		relays[each.name] = one
	}
	return relays
}

func (s *interception) terminalsOf(w spec) map[string]*terminalState {
	terminals := map[string]*terminalState{}
	for _, each := range w.terminals {
		one := s.terminals[each.name]
		if one == nil || !sameAddresses(one.addresses, each.addresses) || !sameAddresses(one.locals.All(), each.locals) {
			one = &terminalState{locals: &proxy.Locals{Within: s.dial}}
			one.way = s.way(one.locals)
			one.way.Begin(s.ctx)
		}
		one.terminal = each
		one.locals.Set(each.locals)
		terminals[each.name] = one
	}
	return terminals
}

// sameAddresses ignores the order.
func sameAddresses(a, b []netip.Addr) bool {
	sorted := func(all []netip.Addr) []netip.Addr { return slices.SortedFunc(slices.Values(all), netip.Addr.Compare) }
	return slices.Equal(sorted(a), sorted(b))
}

// way returns the proxy of a terminal, which connects from the terminal's addresses at the uplinks. After lost SYNs one
// connection to a relay may be plain TCP. The next one tries MPTCP again.
func (s *interception) way(locals *proxy.Locals) *proxy.Terminal {
	return &proxy.Terminal{
		Direct: locals.Direct,
		Dial: func(ctx context.Context, dialer net.Dialer, relay *proxy.Relay) (*net.TCPConn, error) {
			return locals.Dial(ctx, dialer, relay.At)
		},
		TLS: func(relay *proxy.Relay) (*tls.Config, error) {
			identity, err := s.identity()
			if err != nil {
				return nil, err
			}
			return identity.Calling(relay.Name, relay.KeySum[:]), nil
		},
		Join: func(relay *proxy.Relay, conn net.Conn) bool { return s.subflows.join(conn, locals, relay.At) },
	}
}

// watch lets the first terminal keep a connection to each relay, which shows whether the relay is reachable.
func (s *interception) watch(w spec) {
	for _, each := range w.terminals {
		s.terminals[each.name].way.Only(s.plan.Relays)
	}
	for i, each := range w.terminals {
		for _, relay := range s.plan.Relays {
			if !relay.Draining() && (i == 0 || s.terminals[each.name].watches) {
				s.terminals[each.name].way.Await(relay, map[bool]int{true: 1}[i == 0])
			}
		}
		s.terminals[each.name].watches = i == 0
	}
}

func (s *interception) choose(order *agentv1.Choices) error {
	choices, err := parseChoices(order, s.relays)
	if err != nil {
		return err
	}
	s.plan.Choices = choices
	s.applyPlan()
	return nil
}

func (s *interception) end() error {
	s.cancel()
	for _, each := range s.terminals {
		each.way.End()
	}
	s.parts.Wait()
	return errors.Join(s.within(s.restoreBlackhole), s.proxy.Close())
}
