// Package proxy is the gateway's side: it carries intercepted connections of terminals to where they go through a relay. Where
// there is no relay it connects directly, or resets them, as the policy says.
package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"bicast/internal/ratelog"
	"bicast/relay/carry"
	"bicast/relay/internal/acceptloop"
	"bicast/relay/internal/httpconnect"
)

const answerWithin = 20 * time.Second // a relay gives a name 5 s and a destination 10

var errSilent = errors.New("the relay has gone silent")

// Proxy is a gateway's proxy.
type Proxy struct {
	Trouble *ratelog.Logger
	Most    int // connections of all terminals

	plan     atomic.Pointer[Plan]
	taken    atomic.Int64
	accepted atomic.Uint64
}

// By has what comes from now on go by a plan; it is given one before it serves.
func (p *Proxy) By(plan *Plan) { p.plan.Store(plan) }

// Serve ends, with all connections, when the context does.
func (p *Proxy) Serve(ctx context.Context, listener *net.TCPListener) error {
	return acceptloop.Serve(ctx, listener, p.guest)
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
	return own+all <= int64(p.Most)
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
