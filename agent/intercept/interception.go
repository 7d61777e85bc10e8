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

// How long the first order waits for the path manager: connections that are made before have one subflow for good.
const holdWithin = 3 * time.Second

// interception is what there is while something is ordered to be taken.
type interception struct {
	within   func(func() error) error
	dial     func(context.Context, func() error) error // runs what waits for relays and servers
	identity func() (trust.Identity, error)
	log      *slog.Logger
	ctx      context.Context
	cancel   context.CancelFunc
	parts    sync.WaitGroup
	blinded  []byte // what blinding was

	proxy     *proxy.Proxy
	joins     *joins
	relays    map[string]*proxy.Relay
	terminals map[string]*taken
	wanted    wanted
	plan      proxy.Plan
	said      map[*proxy.Relay]string // why each cannot be reached, as it was told last
	intake    intake
	bars      error // why nothing may come to the proxy
}

// taken is a terminal as it was ordered, and by what it goes.
type taken struct {
	terminal
	way     *proxy.Terminal
	locals  *proxy.Locals
	watches bool // whether relays can be reached
}

func begin(h *Executor) (s *interception, err error) {
	s = &interception{
		within: h.within, dial: h.kernel.Dial, identity: h.identity, log: h.log,
		joins: &joins{kernel: h.kernel, trouble: &ratelog.Logger{Log: h.log}, live: map[mptcp.Token]*joined{}}, relays: map[string]*proxy.Relay{},
		terminals: map[string]*taken{}, said: map[*proxy.Relay]string{},
		plan: proxy.Plan{Choices: proxy.Chosen(nil), Undecided: &proxy.Undecided{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.proxy, err = proxy.Open(s.ctx, proxy.Settings{Within: h.within, Mark: divert.Answering, Log: h.log, Failed: func(err error) {
		h.log.Error("terminals' connections are not taken any more", "reason", err)
	}})
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.hold(h.guard)
	s.part(s.joins.run)
	if err := h.within(s.unblind); err != nil {
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

// hold has what is connected from here on be under the userspace path manager.
func (s *interception) hold(guard []string) {
	settled := make(chan struct{})
	var once sync.Once
	holder := pathmanager.Holder{Command: guard, Log: s.log, Changed: func(bool) { once.Do(func() { close(settled) }) }}
	s.part(holder.Run)
	select {
	case <-settled:
	case <-time.After(holdWithin):
		s.log.Warn("the path manager is not held yet: until it is, connections have one subflow")
	}
}

// obey has an order take the place of the one before; terminals and relays that are as they were go on.
func (s *interception) obey(w wanted) error {
	plan, relays, terminals := s.plan, s.relays, s.terminals
	s.relays, s.terminals = s.relaysOf(w), s.terminalsOf(w)
	s.joins.lead(w.relays)
	s.plan.Block, s.plan.Relays = w.block, nil
	for _, each := range w.relays {
		s.plan.Relays = append(s.plan.Relays, s.relays[each.name])
	}
	s.expect(s.terminals, terminals) // who is led here is known, from the first one on
	if err := s.write(w); err != nil {
		s.relays, s.terminals, relays, terminals = relays, terminals, s.relays, s.terminals
		s.joins.lead(s.wanted.relays)
		s.plan = plan
		s.proceed()
		s.leave(relays, terminals)
		return err
	}
	s.wanted = w
	s.expect(s.terminals)
	s.leave(relays, terminals)
	s.watch(w)
	return nil
}

// expect has connections of these terminals be carried from now on.
func (s *interception) expect(all ...map[string]*taken) {
	s.plan.Terminals = map[netip.Addr]*proxy.Terminal{}
	for _, terminals := range all {
		for _, each := range terminals {
			for _, address := range each.addresses {
				s.plan.Terminals[address] = each.way
			}
		}
	}
	s.proceed()
}

// leave ends those that are none of ours.
func (s *interception) leave(relays map[string]*proxy.Relay, terminals map[string]*taken) {
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

// proceed has what comes from now on go by the plan as it is.
func (s *interception) proceed() {
	plan := s.plan
	s.proxy.By(&plan)
}

func (s *interception) relaysOf(w wanted) map[string]*proxy.Relay {
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

func (s *interception) terminalsOf(w wanted) map[string]*taken {
	terminals := map[string]*taken{}
	for _, each := range w.terminals {
		one := s.terminals[each.name]
		if one == nil || !same(one.addresses, each.addresses) || !same(one.locals.All(), each.locals) {
			one = &taken{locals: &proxy.Locals{Within: s.dial}}
			one.way = s.way(one.locals)
			one.way.Begin(s.ctx)
		}
		one.terminal = each
		one.locals.Set(each.locals)
		terminals[each.name] = one
	}
	return terminals
}

// same is whether two have the same addresses, in whatever order.
func same(a, b []netip.Addr) bool {
	sorted := func(all []netip.Addr) []netip.Addr { return slices.SortedFunc(slices.Values(all), netip.Addr.Compare) }
	return slices.Equal(sorted(a), sorted(b))
}

// way is how a terminal's connections go by its addresses at the uplinks. Where SYNs are lost, a connection to a relay may be plain TCP:
// the next one need not.
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
		Join: func(relay *proxy.Relay, conn net.Conn) bool { return s.joins.join(conn, locals, relay.At) },
	}
}

// watch has one terminal keep a connection to each relay, by which it is known whether that can be reached.
func (s *interception) watch(w wanted) {
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
	choices, err := chosen(order, s.relays)
	if err != nil {
		return err
	}
	s.plan.Choices = choices
	s.proceed()
	return nil
}

func (s *interception) end() error {
	s.cancel()
	for _, each := range s.terminals {
		each.way.End()
	}
	s.parts.Wait()
	return errors.Join(s.within(s.reblind), s.proxy.Close())
}
