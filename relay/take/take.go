// Package take is the gateway's side: terminals' connections, which were led here, are carried to where they go through a
// relay. Where there is no relay they are made by the gateway itself, or reset, as the policy says.
package take

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"bicast/relay/ask"
	"bicast/relay/carry"
	"bicast/relay/door"
	"bicast/relay/pool"
	"bicast/relay/seldom"
)

const (
	mostTaken     = 16384
	answerWithin  = 20 * time.Second // a relay gives a name 5 s and a destination 10
	connectWithin = 10 * time.Second // without a relay
)

// Taker is a gateway's proxy.
type Taker struct {
	Pool    *pool.Pool
	Block   bool // where there is no relay a terminal is reset; else it is connected by the gateway
	Trouble *seldom.Teller

	taken atomic.Int64
}

// Serve ends, with all connections, when the context does.
func (t *Taker) Serve(ctx context.Context, listener *net.TCPListener) error {
	return door.Serve(ctx, listener, t.guest)
}

func (t *Taker) guest(ctx context.Context, conn *net.TCPConn) {
	terminal := carry.OfTCP(conn)
	to := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	defer t.taken.Add(-1)
	if t.taken.Add(1) > mostTaken || to.Addr().IsLoopback() { // who comes to our own door wants nothing that is there
		terminal.Reset()
		return
	}
	stop := context.AfterFunc(ctx, terminal.Reset)
	defer stop()
	relay, err := t.Pool.Take(ctx)
	if err != nil {
		t.otherwise(ctx, terminal, terminal, to)
		return
	}
	end := context.AfterFunc(ctx, relay.Reset)
	defer end()
	t.through(ctx, terminal, relay, to)
}

// through asks the relay, and sends on what the terminal sends before there is an answer.
func (t *Taker) through(ctx context.Context, terminal *carry.Plain, relay *carry.Secure, to netip.AddrPort) {
	near := keep(terminal)
	pair := carry.Pair{Near: near, Far: relay}
	first, err := near.first()
	if err != nil {
		pair.Cut()
		return
	}
	if _, err = relay.Write(append(ask.Of(to).Request(), first...)); err != nil { // so little goes as a whole, or not at all
		relay.Reset()
		t.otherwise(ctx, near.again(), terminal, to)
		return
	}
	up := pair.Begin()
	answer, behind, err := answerOf(relay)
	if err == nil && answer.Code == ask.OK {
		near.settle()
		pair.Far = &carry.Ahead{End: relay, First: behind}
		pair.Finish(up)
		return
	}
	near.leave()
	relay.Reset()
	<-up
	switch {
	case near.broken:
	case err != nil && len(near.head) > 0: // the destination may have had those bytes: they are not sent twice
		t.Trouble.Warn("the relay was lost before it answered: a terminal is reset", "to", to, "because", err)
		terminal.Reset()
	case err == nil && !elsewhere(answer.Code):
		terminal.Reset()
	default:
		t.otherwise(ctx, near.again(), terminal, to)
	}
}

// elsewhere tells whether another way may lead there.
func elsewhere(code int) bool {
	switch code {
	case ask.Forbidden, ask.Unable, ask.TooMany, ask.TooLong:
		return true
	default:
		return false
	}
}

func answerOf(relay *carry.Secure) (ask.Answer, []byte, error) {
	relay.SetReadDeadline(time.Now().Add(answerWithin))
	header, behind, err := ask.Header(relay, make([]byte, ask.HeaderBytes), nil)
	if err != nil {
		return ask.Answer{}, nil, err
	}
	answer, err := ask.ParseAnswer(header, behind)
	return answer, behind, errors.Join(err, relay.SetReadDeadline(time.Time{}))
}

// otherwise is without a relay.
func (t *Taker) otherwise(ctx context.Context, near carry.End, terminal *carry.Plain, to netip.AddrPort) {
	if t.Block {
		terminal.Reset()
		return
	}
	conn, err := direct(ctx, terminal.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(), to)
	if err != nil {
		terminal.Reset()
		return
	}
	far := carry.OfTCP(conn)
	stop := context.AfterFunc(ctx, far.Reset)
	defer stop()
	carry.Pair{Near: near, Far: far}.Run()
}

// direct connects with the terminal's own address: what is decided by that further on, in the bridge and in filters, holds.
// Its port is another one, or conntrack would take both connections for one.
func direct(ctx context.Context, terminal netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{
		Timeout: connectWithin, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(terminal, 0)),
		ControlContext: func(_ context.Context, network, address string, raw syscall.RawConn) error {
			return transparent(network, address, raw)
		},
	}
	dialer.SetMultipathTCP(false)
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
