// Package serve is the relay's side: MPTCP and TLS with gateways, plain TCP with the servers that they ask for.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"bicast/relay/ask"
	"bicast/relay/carry"
	"bicast/relay/door"
	"bicast/relay/identity"
	"bicast/relay/reach"
	"bicast/relay/seldom"
)

// Limits that hold a peer to its part.
const (
	greetWithin = 5 * time.Second
	IdleAtMost  = 2 * time.Minute // opened, and nothing asked for: gateways keep such ones in store
	askWithin   = 5 * time.Second // from a request's first byte to its last
	mostOfOne   = 16384           // connections of one gateway, with those where nothing was asked yet
	partWithin  = 2 * time.Second // for a refusal to be read
	partBytes   = 1 << 20
)

// Server is a relay.
type Server struct {
	TLS       *tls.Config
	Gateways  []string
	Reach     *reach.Reach
	Strangers *seldom.Teller

	crowd crowd
	mutex sync.Mutex
	of    map[string]int // connections, by gateway
}

// Listen opens the relay's door: MPTCP, and for peers who have none, TCP.
func Listen(ctx context.Context, at netip.AddrPort, congestion string) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return reach.SetCongestion(raw, congestion)
	}}
	config.SetMultipathTCP(true)
	listener, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Serve ends, with all connections, when the context does.
func (s *Server) Serve(ctx context.Context, listener *net.TCPListener) error {
	s.of = make(map[string]int)
	return door.Serve(ctx, listener, s.guest)
}

func (s *Server) guest(ctx context.Context, conn *net.TCPConn) {
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	end := carry.Server(conn, s.TLS)
	stop := context.AfterFunc(ctx, end.Reset)
	defer stop()
	stranger := s.crowd.enter(from.Addr(), end)
	err := end.Handshake(ctx, greetWithin)
	s.crowd.leave(stranger)
	if err != nil {
		end.Close() // with what TLS said of it, and that is all
		s.Strangers.Warn("nobody whom this relay serves", "from", from.Addr().Unmap(), "because", err)
		return
	}
	name := identity.Name(end.Peer(), s.Gateways)
	if !s.enter(name) {
		part(end, ask.No(ask.TooMany, "this gateway has %d connections: no more", mostOfOne))
		return
	}
	defer s.leave(name)
	target, behind, answer := s.request(end)
	var far *net.TCPConn
	if answer == nil && target != nil {
		far, answer = s.Reach.Connect(ctx, *target)
	}
	switch {
	case answer != nil:
		part(end, answer)
	case target == nil:
		end.Reset()
	default:
		s.relay(ctx, end, behind, far)
	}
}

// request is what is wanted; no target and no answer: the peer has gone.
func (s *Server) request(end *carry.Secure) (*ask.Target, []byte, *ask.Answer) {
	end.SetReadDeadline(time.Now().Add(IdleAtMost))
	header, behind, err := ask.Header(end, make([]byte, ask.HeaderBytes), func() {
		end.SetReadDeadline(time.Now().Add(askWithin))
	})
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, nil, ask.No(ask.TooLong, "nothing was asked for in time")
	case errors.Is(err, ask.ErrLong):
		return nil, nil, ask.No(ask.Malformed, "%v", err)
	case err != nil:
		return nil, nil, nil
	}
	end.SetReadDeadline(time.Time{})
	target, err := ask.Parse(header)
	if err != nil {
		return nil, nil, ask.No(ask.Malformed, "%v", err)
	}
	return &target, behind, nil
}

func (s *Server) relay(ctx context.Context, end *carry.Secure, behind []byte, conn *net.TCPConn) {
	far := carry.OfTCP(conn)
	stop := context.AfterFunc(ctx, far.Reset)
	defer stop()
	pair := carry.Pair{Near: &carry.Ahead{End: end, First: behind}, Far: far}
	if _, err := end.Write(ask.Answer{Code: ask.OK}.Bytes()); err != nil {
		pair.Cut()
		return
	}
	pair.Run()
}

// part answers a refusal. What the peer sent meanwhile is read and forgotten: a connection that is closed with unread bytes
// is reset, and the answer with it.
func part(end *carry.Secure, answer *ask.Answer) {
	end.SetReadDeadline(time.Now().Add(partWithin))
	_, err := end.Write(answer.Bytes())
	if err = errors.Join(err, end.CloseWrite()); err == nil {
		io.CopyN(io.Discard, end, partBytes)
	}
	end.Close()
}

func (s *Server) enter(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.of[name] >= mostOfOne {
		return false
	}
	s.of[name]++
	return true
}

func (s *Server) leave(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.of[name]--
}
