// SPDX-License-Identifier: Apache-2.0

// Package proxy is the gateway's side: it forwards intercepted connections of terminals through a relay. Without a
// relay it connects directly or resets them, as the policy says.
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

const answerTimeout = 20 * time.Second // a relay allows 5 s for a name and 10 s for a destination

var errSilent = errors.New("the relay has gone silent")

// Proxy is a gateway's proxy.
type Proxy struct {
	*divert.Diversion // redirects connections to the proxy
	Trouble           *ratelog.Logger

	maxConnections int // limit of connections, of all terminals
	four, six      uint16
	within         func(func() error) error
	serving        sync.WaitGroup
	end            func() // releases the resources for serving

	plan     atomic.Pointer[Plan]
	taken    atomic.Int64
	accepted atomic.Uint64
}

// Settings are the settings of a proxy.
type Settings struct {
	Within func(func() error) error // runs work in the network namespace of the redirected connections
	Port   uint16                   // at loopback addresses; 0: any
	Mark   int                      // of packets to terminals
	Log    *slog.Logger
	Failed func(error) // the proxy stopped serving unexpectedly
}

// Open claims the network namespace and serves there until the context ends. Without a plan (By) it knows no terminals,
// and before Write no connections are redirected to it.
func Open(ctx context.Context, s Settings) (*Proxy, error) {
	p := &Proxy{Trouble: &ratelog.Logger{Log: s.Log}, maxConnections: memlimit.Connections(), within: s.Within, end: func() {}}
	p.By(&Plan{Choices: Chosen(nil), Undecided: &Undecided{}})
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
		if err := acceptloop.Serve(ctx, listener, p.handle); err != nil {
			failed(err)
		}
	}()
	return listener.Addr().(*net.TCPAddr).AddrPort().Port()
}

// By sets the plan for new connections.
func (p *Proxy) By(plan *Plan) { p.plan.Store(plan) }

// Write redirects connections to the proxy, as divert.Diversion does.
func (p *Proxy) Write(order divert.Order) (made []string, err error) {
	order.Four, order.Six = p.four, p.six
	return p.Diversion.Write(order)
}

// Close undoes everything, after the context and all connections have ended.
func (p *Proxy) Close() error {
	p.serving.Wait()
	p.end()
	return p.within(p.Diversion.Close)
}

// Accepted returns how many connections were accepted in total.
func (p *Proxy) Accepted() uint64 { return p.accepted.Load() }

func (p *Proxy) handle(ctx context.Context, conn *net.TCPConn) {
	p.accepted.Add(1)
	end := carry.OfTCP(conn)
	to := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	plan := p.plan.Load()
	terminal := plan.terminal(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if terminal == nil || to.Addr().IsLoopback() { // a connection to the listener itself has no destination
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
	done := context.AfterFunc(terminal.ctx, cut)
	defer done()
	stop := context.AfterFunc(ctx, end.Reset)
	defer stop()
	call{p, plan, terminal, newReplay(end, &terminal.counts), to}.carry(ctx)
}

// enter tells whether there is room for another connection. A terminal may not use more than it leaves to others, if
// there are others.
func (p *Proxy) enter(terminal *Terminal, alone bool) bool {
	own, all := terminal.counts.connections.Add(1), p.taken.Add(1)
	if alone {
		own = 0
	}
	return own+all <= int64(p.maxConnections)
}

func (p *Proxy) leave(terminal *Terminal) {
	terminal.counts.connections.Add(-1)
	p.taken.Add(-1)
}

// call is one connection of a terminal.
type call struct {
	*Proxy
	plan     *Plan
	terminal *Terminal
	near     *replay
	to       netip.AddrPort
}

// outcome is the result of an attempt with a relay.
type outcome int

const (
	done       outcome = iota // forwarded or reset
	tryAnother                // another relay may succeed
	tryNone                   // no relay will succeed
)

func (c call) carry(ctx context.Context) {
	paths, directly := c.plan.paths(c.terminal, c.to)
	for _, relayPath := range paths {
		relay, err := relayPath.take(ctx)
		if err != nil {
			continue
		}
		came := c.through(ctx, relayPath, relay)
		if came == done {
			return
		}
		c.near.restart()
		if came == tryNone {
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

// through asks a relay, and already forwards the terminal's data while it waits for the answer.
func (c call) through(ctx context.Context, relayPath *relayPath, relay *carry.Secure) outcome {
	relayPath.begin()
	defer relayPath.end()
	for _, lasts := range []context.Context{ctx, relayPath.relay.ctx} {
		stop := context.AfterFunc(lasts, relay.Reset)
		defer stop()
	}
	pair := carry.Pair{Near: c.near, Far: relay}
	early, err := c.near.early()
	if err != nil {
		pair.Cut()
		return done
	}
	target := httpconnect.Of(c.to)
	target.For = c.near.RemoteAddr().(*net.TCPAddr).AddrPort()
	if err = relay.Send(append(target.Request(), early...)); err != nil { // small enough to be sent completely or not at all
		relay.Reset()
		return tryAnother
	}
	up := pair.Begin()
	silent := context.AfterFunc(relayPath.pool.Heard(), relay.Reset)
	answer, behind, err := answerOf(relay)
	if !silent() {
		err = errors.Join(errSilent, err)
	}
	if err == nil {
		relayPath.pool.Answered()
	}
	if err == nil && answer.Code == httpconnect.OK {
		c.terminal.counts.relayed.Add(1)
		c.near.settle()
		pair.Far = &carry.Ahead{End: relay, First: behind}
		pair.Finish(up)
		return done
	}
	c.near.leave()
	relay.Reset()
	up.Wait()
	switch {
	case c.near.broken:
		return done
	case err != nil && len(c.near.head) > 0: // the destination may have received the data: do not send it twice
		c.Trouble.Warn("the relay was lost before it answered: the terminal's connection is reset", "to", c.to, "reason", err)
	case err != nil:
		return tryAnother
	default:
		if came := outcomeOf(answer.Code); came != done {
			return came
		}
	}
	c.near.Plain.Reset()
	return done
}

// outcomeOf tells whether another attempt may succeed.
func outcomeOf(code int) outcome {
	switch code {
	case httpconnect.Unable, httpconnect.TooMany, httpconnect.TooLong:
		return tryAnother
	case httpconnect.Forbidden, httpconnect.Loop: // any relay would refuse
		return tryNone
	default:
		return done
	}
}

func answerOf(relay *carry.Secure) (httpconnect.Answer, []byte, error) {
	relay.SetReadDeadline(time.Now().Add(answerTimeout))
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
