// SPDX-License-Identifier: Apache-2.0

// Package server is the relay's side: MPTCP and TLS with gateways, plain TCP with the servers that they ask for.
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

const partBytes = 1 << 20 // of what a peer sent before it was refused

// times hold a peer to its part.
type times struct {
	greet time.Duration
	idle  time.Duration // opened, and nothing asked for: gateways keep such ones in store
	ask   time.Duration // from a request's first byte to its last
	part  time.Duration // for a refusal to be read, and as much for it to be sent
}

var usual = times{greet: 5 * time.Second, idle: 2 * time.Minute, ask: 5 * time.Second, part: 2 * time.Second}

// Server is a relay. It is given its first order before it serves.
type Server struct {
	strangers *ratelog.Logger
	reach     *reach.Reach
	close     func() error // what Open opened

	times  times
	most   int // connections of all gateways, with those where nothing was asked yet
	crowd  crowd
	count  counts
	mutex  sync.Mutex
	order  Order
	tls    *tls.Config // by the order
	visits map[*visit]struct{}
	of     map[string]int // visits, by gateway
	made   map[ends]struct{}

	networks map[netip.Prefix]time.Time // from where gateways came, and when last
}

// ends are a connection's that this relay made to a server.
type ends struct{ source, to netip.AddrPort }

// Order is how it serves, for those who come from then on.
type Order struct {
	Shows     tls.Certificate
	Authority *x509.CertPool // who vouches for guests
	Guests    mtls.Guests
	Ports     Ports
	// Congestion is the control of what is sent to servers; "": the kernel's.
	Congestion string
	Draining   bool // nothing new is carried
}

// visit is a guest's connection.
type visit struct {
	name string
	is   *x509.Certificate
	cut  context.CancelFunc

	network netip.Prefix // that it comes from
}

// Open returns a relay that uses what its host has for it, until Close. It asks for routes where within runs; dial runs what waits
// for servers and for their names, where those are reached from.
func Open(within func(func() error) error, dial func(context.Context, func() error) error, log *slog.Logger) (*Server, error) {
	var roads *reach.Kernel
	if err := within(func() (err error) {
		roads, err = reach.OpenKernel()
		return err
	}); err != nil {
		return nil, err
	}
	s := newServer(memlimit.Connections(), &ratelog.Logger{Log: log})
	s.reach = &reach.Reach{Resolve: reach.Resolver(dial), Within: dial, Roads: roads}
	end := footprint.Carry()
	s.close = func() error {
		end()
		return roads.Close()
	}
	return s, nil
}

// Close lets go of what Open opened, once nothing is served any more.
func (s *Server) Close() error { return s.close() }

// newServer has so many connections at most, of which no gateway has more than it leaves to others.
func newServer(most int, strangers *ratelog.Logger) *Server {
	return &Server{
		strangers: strangers, times: usual, most: most, visits: map[*visit]struct{}{}, of: map[string]int{}, made: map[ends]struct{}{},
		networks: map[netip.Prefix]time.Time{},
	}
}

// Obey has an order take the place of the one before. Who is no guest any more is cut.
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

func (s *Server) ordered() (Order, *tls.Config) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.order, s.tls
}

// Listen opens the relay's door: MPTCP, and for peers who have none, TCP.
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

// Serve ends, with all connections, when the context does; when the listener is closed it ends with the last of them.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	return acceptloop.Serve(ctx, listener, s.guest)
}

func (s *Server) guest(ctx context.Context, conn *net.TCPConn) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	_, config := s.ordered()
	end := carry.Server(conn, config)
	stop := context.AfterFunc(ctx, end.Reset)
	defer stop()
	stranger := s.crowd.enter(from.Addr(), end)
	err := end.Handshake(ctx, s.times.greet)
	s.crowd.leave(stranger, err == nil)
	if err != nil {
		end.Close() // with what TLS said of it, and that is all
		s.count.strangers.Add(1)
		s.strangers.Warn("nobody whom this relay serves", "from", from.Addr().Unmap(), "because", err)
		return
	}
	visit := &visit{is: end.Peer(), cut: cut, network: networkOf(from.Addr())}
	if no := s.enter(visit); no != nil {
		s.part(end, no)
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
		s.part(end, answer)
	case target == nil:
		end.Reset()
	default:
		s.relay(ctx, end, behind, far)
	}
}

func (s *Server) connect(ctx context.Context, target httpconnect.Target) (*net.TCPConn, *httpconnect.Answer) {
	order, _ := s.ordered()
	if order.Draining {
		return nil, httpconnect.No(httpconnect.Unable, "this relay is being drained")
	}
	if target.For.IsValid() && s.own(ends{target.For, netip.AddrPortFrom(target.Address.Unmap(), target.Port)}) {
		return nil, httpconnect.No(httpconnect.Loop, "the connection from %v is this relay's own: its packets come back by a gateway; leave this "+
			"relay's address out of the networks that the gateway relays", target.For)
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

// note keeps which connection this relay has made, until the returned function is called.
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

// request is what is wanted; no target and no answer: the peer has gone.
func (s *Server) request(end *carry.Secure) (*httpconnect.Target, []byte, *httpconnect.Answer) {
	end.SetReadDeadline(time.Now().Add(s.times.idle))
	header, behind, err := httpconnect.Header(end, make([]byte, httpconnect.HeaderBytes), func() {
		end.SetReadDeadline(time.Now().Add(s.times.ask))
	})
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, nil, httpconnect.No(httpconnect.TooLong, "nothing was asked for in time")
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

// part answers a refusal. What the peer sent meanwhile is read and forgotten: a connection that is closed with unread bytes
// is reset, and the answer with it.
func (s *Server) part(end *carry.Secure, answer *httpconnect.Answer) {
	s.count.no(answer.Code)
	late := time.AfterFunc(2*s.times.part, end.Reset) // one that takes nothing is not waited for
	defer late.Stop()
	end.SetReadDeadline(time.Now().Add(s.times.part))
	if err := errors.Join(end.Send(answer.Bytes()), end.CloseWrite()); err == nil {
		io.CopyN(io.Discard, end, partBytes)
	}
	end.Close()
}

// enter refuses who was a guest when he came, and is none any more.
func (s *Server) enter(v *visit) *httpconnect.Answer {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	v.name = s.order.Guests.Name(v.is)
	switch {
	case v.name == "":
		return httpconnect.No(httpconnect.Forbidden, "this gateway is not served any more")
	case !s.room(v.name):
		return httpconnect.No(httpconnect.TooMany, "this gateway has %d connections of %d for which this relay has memory: no more", s.of[v.name], s.most)
	}
	s.visits[v] = struct{}{}
	s.of[v.name]++
	s.came(v.network, time.Now())
	return nil
}

// room tells whether there is room for one more: no gateway has more than it leaves to others, where there are others. Under
// the mutex.
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
	s.came(v.network, time.Now())
	if s.of[v.name]--; s.of[v.name] == 0 {
		delete(s.of, v.name)
	}
}
