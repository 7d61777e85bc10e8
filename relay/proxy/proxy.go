// SPDX-License-Identifier: Apache-2.0

// Package proxy is the gateway's side: it carries intercepted connections of terminals to where they go through a relay. Where
// there is no relay it connects directly, or resets them, as the policy says.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"bicast/internal/footprint"
	"bicast/internal/memlimit"
	"bicast/internal/ratelog"
	"bicast/relay/divert"
	"bicast/relay/internal/acceptloop"
	"bicast/relay/internal/carry"
	"bicast/relay/internal/httpconnect"
)

const answerWithin = 20 * time.Second // a relay gives a name 5 s and a destination 10

var errSilent = errors.New("the relay has gone silent")

// Proxy is a gateway's proxy.
type Proxy struct {
	*divert.Diversion // what leads connections to it
	Trouble           *ratelog.Logger

	most      int // connections of all terminals
	four, six uint16
	within    func(func() error) error
	serving   sync.WaitGroup
	end       func() // gives back what it needs while it serves

	plan     atomic.Pointer[Plan]
	taken    atomic.Int64
	accepted atomic.Uint64
}

// Settings are a proxy's.
type Settings struct {
	Within func(func() error) error // runs in the network namespace where terminals' connections are led to it
	Port   uint16                   // of its loopback addresses; 0: any
	Mark   int                      // of the packets that it sends to terminals
	Log    *slog.Logger
	Failed func(error) // it takes nothing any more, before it was ended
}

// Open claims the network namespace, and serves there until the context ends. Nobody is a terminal before there is a plan (By), and
// nobody is led to it before Write.
func Open(ctx context.Context, s Settings) (*Proxy, error) {
	p := &Proxy{Trouble: &ratelog.Logger{Log: s.Log}, most: memlimit.Connections(), within: s.Within, end: func() {}}
	p.By(&Plan{Choices: Chosen(nil), Sought: &Sought{}})
	if err := s.Within(func() (err error) {
		p.Diversion, err = divert.Claim()
		return err
	}); err != nil {
		return nil, err
	}
	var four, six *net.TCPListener
	if err := s.Within(func() (err error) {
		four, six, err = listen(ctx, s.Port, s.Mark)
		return err
	}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.end = footprint.Carry()
	p.four, p.six = p.serve(ctx, four, s.Failed), p.serve(ctx, six, s.Failed)
	return p, nil
}

func (p *Proxy) serve(ctx context.Context, listener *net.TCPListener, failed func(error)) (port uint16) {
	if listener == nil {
		return 0
	}
	p.serving.Add(1)
	go func() {
		defer p.serving.Done()
		if err := acceptloop.Serve(ctx, listener, p.guest); err != nil {
			failed(err)
		}
	}()
	return listener.Addr().(*net.TCPAddr).AddrPort().Port()
}

// By has what comes from now on go by a plan.
func (p *Proxy) By(plan *Plan) { p.plan.Store(plan) }

// Write has connections led here as divert.Diversion does.
func (p *Proxy) Write(order divert.Order) (made []string, err error) {
	order.Four, order.Six = p.four, p.six
	return p.Diversion.Write(order)
}

// Close undoes everything, once the context has ended and all connections have.
func (p *Proxy) Close() error {
	p.serving.Wait()
	p.end()
	return p.within(p.Diversion.Close)
}

// Accepted are the connections that came here, whatever became of them.
func (p *Proxy) Accepted() uint64 { return p.accepted.Load() }

func (p *Proxy) guest(ctx context.Context, conn *net.TCPConn) {
	p.accepted.Add(1)
	end := carry.OfTCP(conn)
	to := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	plan := p.plan.Load()
	terminal := plan.terminal(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if terminal == nil || to.Addr().IsLoopback() { // who comes to our own door wants nothing that is there
		end.Reset()
		return
	}
	defer p.leave(terminal)
	if !p.enter(terminal, plan.alone(terminal)) {
		terminal.counts.reset.Add(1)
		end.Reset()
		return
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	over := context.AfterFunc(terminal.ctx, cut)
	defer over()
	stop := context.AfterFunc(ctx, end.Reset)
	defer stop()
	call{p, plan, terminal, keep(end, &terminal.counts), to}.carry(ctx)
}

// enter tells whether there is room for one more: no terminal has more than it leaves to others, where there are others.
func (p *Proxy) enter(terminal *Terminal, alone bool) bool {
	own, all := terminal.counts.connections.Add(1), p.taken.Add(1)
	if alone {
		own = 0
	}
	return own+all <= int64(p.most)
}

func (p *Proxy) leave(terminal *Terminal) {
	terminal.counts.connections.Add(-1)
	p.taken.Add(-1)
}

// call is one connection that a terminal has made.
type call struct {
	*Proxy
	plan     *Plan
	terminal *Terminal
	near     *kept
	to       netip.AddrPort
}

// outcome is what came of a relay.
type outcome int

const (
	over    outcome = iota // it was carried, or reset
	another                // another relay may lead there
	without                // no relay does
)

func (c call) carry(ctx context.Context) {
	roads, directly := c.plan.roads(c.terminal, c.to)
	for _, road := range roads {
		relay, err := road.take(ctx)
		if err != nil {
			continue
		}
		came := c.through(ctx, road, relay)
		if came == over {
			return
		}
		c.near.again()
		if came == without {
			break
		}
	}
	if c.plan.Block && !directly {
		c.terminal.counts.reset.Add(1)
		c.near.Plain.Reset()
		return
	}
	c.directly(ctx)
}

// through asks a relay, and sends on what the terminal sends before there is an answer.
func (c call) through(ctx context.Context, road *road, relay *carry.Secure) outcome {
	road.begin()
	defer road.end()
	for _, lasts := range []context.Context{ctx, road.relay.ctx} {
		stop := context.AfterFunc(lasts, relay.Reset)
		defer stop()
	}
	pair := carry.Pair{Near: c.near, Far: relay}
	first, err := c.near.first()
	if err != nil {
		pair.Cut()
		return over
	}
	target := httpconnect.Of(c.to)
	target.For = c.near.RemoteAddr().(*net.TCPAddr).AddrPort()
	if err = relay.Send(append(target.Request(), first...)); err != nil { // so little goes as a whole, or not at all
		relay.Reset()
		return another
	}
	up := pair.Begin()
	silent := context.AfterFunc(road.pool.Heard(), relay.Reset)
	answer, behind, err := answerOf(relay)
	if !silent() {
		err = errors.Join(errSilent, err)
	}
	if err == nil {
		road.pool.Answered()
	}
	if err == nil && answer.Code == httpconnect.OK {
		c.terminal.counts.relayed.Add(1)
		c.near.settle()
		pair.Far = &carry.Ahead{End: relay, First: behind}
		pair.Finish(up)
		return over
	}
	c.near.leave()
	relay.Reset()
	up.Wait()
	switch {
	case c.near.broken:
		return over
	case err != nil && len(c.near.head) > 0: // the destination may have had those bytes: they are not sent twice
		c.Trouble.Warn("the relay was lost before it answered: a terminal is reset", "to", c.to, "because", err)
	case err != nil:
		return another
	default:
		if came := elsewhere(answer.Code); came != over {
			return came
		}
	}
	c.near.Plain.Reset()
	return over
}

// elsewhere tells whether another way may lead there.
func elsewhere(code int) outcome {
	switch code {
	case httpconnect.Unable, httpconnect.TooMany, httpconnect.TooLong:
		return another
	case httpconnect.Forbidden, httpconnect.Loop: // which any relay would say
		return without
	default:
		return over
	}
}

func answerOf(relay *carry.Secure) (httpconnect.Answer, []byte, error) {
	relay.SetReadDeadline(time.Now().Add(answerWithin))
	header, behind, err := httpconnect.Header(relay, make([]byte, httpconnect.HeaderBytes), nil)
	if err != nil {
		return httpconnect.Answer{}, nil, err
	}
	answer, err := httpconnect.ParseAnswer(header, behind)
	return answer, behind, errors.Join(err, relay.SetReadDeadline(time.Time{}))
}

func (c call) directly(ctx context.Context) {
	conn, err := c.terminal.Direct(ctx, c.near.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(), c.to)
	if err != nil {
		c.terminal.counts.reset.Add(1)
		c.near.Plain.Reset()
		return
	}
	c.terminal.counts.direct.Add(1)
	far := carry.OfTCP(conn)
	stop := context.AfterFunc(ctx, far.Reset)
	defer stop()
	c.near.settle()
	carry.Pair{Near: c.near, Far: far}.Run()
}
