// SPDX-License-Identifier: Apache-2.0

// Package server is the relay's side: MPTCP and TLS towards gateways, plain TCP towards the servers that they request.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"bicast/internal/footprint"
	"bicast/internal/memlimit"
	"bicast/internal/mtls"
	"bicast/internal/ratelog"
	"bicast/relay/internal/acceptloop"
	"bicast/relay/internal/carry"
	"bicast/relay/internal/httpconnect"
	"bicast/relay/internal/reach"
)

const partBytes = 1 << 20 // limit of data read from a refused peer

// times are the time limits for a peer.
type times struct {
	handshake   time.Duration
	idle        time.Duration // open without a request: gateways keep such connections in reserve
	requestTime time.Duration // from the first to the last byte of a request
	refuse      time.Duration // to send a refusal, and as much for the peer to read it
}

var defaultTimes = times{handshake: 5 * time.Second, idle: 2 * time.Minute, requestTime: 5 * time.Second, refuse: 2 * time.Second}

// Server is a relay. It needs an order before it serves.
type Server struct {
	unauthenticated *ratelog.Logger
	reach           *reach.Reach
	close           func() error // releases what Open opened

	times   times
	most    int // limit of connections of all gateways, idle ones included
	pending pending
	count   counts
	mutex   sync.Mutex
	order   Order
	tls     *tls.Config // of the current order
	visits  map[*visit]struct{}
	of      map[string]int // number of visits, by gateway
	made    map[ends]struct{}

	networks map[netip.Prefix]time.Time // last time of gateways, by network
}

// ends are the addresses of a connection from this relay to a server.
type ends struct{ source, to netip.AddrPort }

// Order is the configuration for new connections.
type Order struct {
	Shows     tls.Certificate
	Authority *x509.CertPool // issuer of the guests' certificates
	Guests    mtls.Guests
	Ports     Ports
	// Congestion is the congestion control towards servers; "": the kernel's.
	Congestion string
	Draining   bool // refuse new requests
}

// visit is an authenticated connection of a gateway.
type visit struct {
	name string
	is   *x509.Certificate
	cut  context.CancelFunc

	network netip.Prefix // that it comes from
}

// Open returns a relay that uses the host's resources until Close. `within` selects the network namespace for route
// queries, `dial` that for connections to servers and resolvers.
func Open(within func(func() error) error, dial func(context.Context, func() error) error, log *slog.Logger) (*Server, error) {
	var routes *reach.Kernel
	if err := within(func() (err error) {
		routes, err = reach.OpenKernel()
		return err
	}); err != nil {
		return nil, err
	}
	s := newServer(memlimit.Connections(), &ratelog.Logger{Log: log})
	s.reach = &reach.Reach{Resolve: reach.Resolver(dial), Within: dial, Routes: routes}
	end := footprint.Carry()
	s.close = func() error {
		end()
		return routes.Close()
	}
	return s, nil
}

// Close releases what Open opened, after serving has ended.
func (s *Server) Close() error { return s.close() }

// newServer returns a server with a limit of connections. No gateway may use more than it leaves to others.
func newServer(most int, unauthenticated *ratelog.Logger) *Server {
	return &Server{
		unauthenticated: unauthenticated, times: defaultTimes, most: most, visits: map[*visit]struct{}{}, of: map[string]int{}, made: map[ends]struct{}{},
		networks: map[netip.Prefix]time.Time{},
	}
}

// Obey replaces the order and resets connections of gateways that are no longer guests.
func (s *Server) Obey(order Order) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.order, s.tls = order, mtls.Serving(order.Shows, order.Authority, order.Guests)
	for each := range s.visits {
		if order.Guests.Name(each.is) != each.name {
			each.cut()
		}
	}
}

func (s *Server) current() (Order, *tls.Config) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.order, s.tls
}

// Listen opens the relay's listener: MPTCP, with TCP for peers without it.
func Listen(ctx context.Context, at netip.AddrPort, congestion string) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return SetCongestion(raw, congestion)
	}}
	config.SetMultipathTCP(true)
	listener, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Serve ends with all connections when the context ends. If the listener is closed, it waits for the last connection.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	return acceptloop.Serve(ctx, listener, s.handle)
}

func (s *Server) handle(ctx context.Context, conn *net.TCPConn) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	_, config := s.current()
	end := carry.Server(conn, config)
	stop := context.AfterFunc(ctx, end.Reset)
	defer stop()
	stranger := s.pending.enter(from.Addr(), end)
	err := end.Handshake(ctx, s.times.handshake)
	s.pending.leave(stranger, err == nil)
	if err != nil {
		end.Close() // with the alert of TLS, nothing else
		s.count.unauthenticated.Add(1)
		s.unauthenticated.Warn("a connection failed to authenticate as a gateway", "from", from.Addr().Unmap(), "reason", err)
		return
	}
	visit := &visit{is: end.Peer(), cut: cut, network: networkOf(from.Addr())}
	if no := s.enter(visit); no != nil {
		s.refuse(end, no)
		return
	}
	defer s.leave(visit)
	s.count.waiting.Add(1)
	target, behind, answer := s.request(end)
	s.count.waiting.Add(-1)
	var far *net.TCPConn
	if answer == nil && target != nil {
		far, answer = s.connect(ctx, *target)
	}
	switch {
	case answer != nil:
		s.refuse(end, answer)
	case target == nil:
		end.Reset()
	default:
		s.relay(ctx, end, behind, far)
	}
}

func (s *Server) connect(ctx context.Context, target httpconnect.Target) (*net.TCPConn, *httpconnect.Answer) {
	order, _ := s.current()
	if order.Draining {
		return nil, httpconnect.No(httpconnect.Unable, "this relay is being drained")
	}
	if target.For.IsValid() && s.own(ends{target.For, netip.AddrPortFrom(target.Address.Unmap(), target.Port)}) {
		return nil, httpconnect.No(httpconnect.Loop, "the connection from %v is this relay's own: its packets come back through a gateway; exclude this "+
			"relay's address from the networks that the gateway relays", target.For)
	}
	if !order.Ports.Have(target.Port) {
		return nil, httpconnect.No(httpconnect.Forbidden, "port %d is not among those that this relay reaches (%v)", target.Port, order.Ports)
	}
	return s.reach.Connect(ctx, target, func(_, _ string, raw syscall.RawConn) error { return SetCongestion(raw, order.Congestion) })
}

func (s *Server) own(one ends) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, own := s.made[one]
	return own
}

// note records a connection made by this relay, until the returned function is called.
func (s *Server) note(conn *net.TCPConn) (forget func()) {
	at := func(address net.Addr) netip.AddrPort {
		one := address.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(one.Addr().Unmap(), one.Port())
	}
	one := ends{at(conn.LocalAddr()), at(conn.RemoteAddr())}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.made[one] = struct{}{}
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.made, one)
	}
}

// request reads the request. Without target and answer the peer has gone.
func (s *Server) request(end *carry.Secure) (*httpconnect.Target, []byte, *httpconnect.Answer) {
	end.SetReadDeadline(time.Now().Add(s.times.idle))
	header, behind, err := httpconnect.Header(end, make([]byte, httpconnect.HeaderBytes), func() {
		end.SetReadDeadline(time.Now().Add(s.times.requestTime))
	})
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, nil, httpconnect.No(httpconnect.TooLong, "no request came in time")
	case errors.Is(err, httpconnect.ErrLong):
		return nil, nil, httpconnect.No(httpconnect.Malformed, "%v", err)
	case err != nil:
		return nil, nil, nil
	}
	end.SetReadDeadline(time.Time{})
	target, err := httpconnect.Parse(header)
	if err != nil {
		return nil, nil, httpconnect.No(httpconnect.Malformed, "%v", err)
	}
	return &target, behind, nil
}

func (s *Server) relay(ctx context.Context, end *carry.Secure, behind []byte, conn *net.TCPConn) {
	s.count.carried.Add(1)
	s.count.connections.Add(1)
	defer s.count.connections.Add(-1)
	defer s.note(conn)()
	far := carry.OfTCP(conn)
	stop := context.AfterFunc(ctx, far.Reset)
	defer stop()
	near, server := s.count.of(&carry.Ahead{End: end, First: behind}, far)
	pair := carry.Pair{Near: near, Far: server}
	if err := end.Send(httpconnect.Answer{Code: httpconnect.OK}.Bytes()); err != nil {
		pair.Cut()
		return
	}
	pair.Run()
}

// refuse sends a refusal. It reads and discards what the peer sends meanwhile: closing a connection with unread data
// would reset it and lose the answer.
func (s *Server) refuse(end *carry.Secure, answer *httpconnect.Answer) {
	s.count.no(answer.Code)
	late := time.AfterFunc(2*s.times.refuse, end.Reset) // a peer that does not read
	defer late.Stop()
	end.SetReadDeadline(time.Now().Add(s.times.refuse))
	if err := errors.Join(end.Send(answer.Bytes()), end.CloseWrite()); err == nil {
		io.CopyN(io.Discard, end, partBytes)
	}
	end.Close()
}

// enter admits a connection, unless the gateway is no longer a guest or has too many.
func (s *Server) enter(v *visit) *httpconnect.Answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	v.name = s.order.Guests.Name(v.is)
	switch {
	case v.name == "":
		return httpconnect.No(httpconnect.Forbidden, "this relay no longer serves this gateway")
	case !s.room(v.name):
		return httpconnect.No(httpconnect.TooMany, "this gateway has %d connections of %d that fit into this relay's memory: the limit is reached", s.of[v.name], s.most)
	}
	s.visits[v] = struct{}{}
	s.of[v.name]++
	s.recordNetwork(v.network, time.Now())
	return nil
}

// room tells whether there is room for another connection. A gateway may not use more than it leaves to others, if
// there are others. The caller holds the mutex.
func (s *Server) room(gateway string) bool {
	own, all := s.of[gateway]+1, len(s.visits)+1
	if len(s.order.Guests) == 1 {
		own = 0
	}
	return own+all <= s.most
}

func (s *Server) leave(v *visit) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.visits, v)
	s.recordNetwork(v.network, time.Now())
	if s.of[v.name]--; s.of[v.name] == 0 {
		delete(s.of, v.name)
	}
}
