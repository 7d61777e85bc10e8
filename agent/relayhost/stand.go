package relayhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"bicast/internal/footprint"
	"bicast/internal/memlimit"
	"bicast/internal/ratelog"
	"bicast/relay/reach"
	"bicast/relay/server"
)

// stand is a relay from the order that begins it to the one that ends it.
type stand struct {
	within  func(func() error) error
	dial    reach.Within
	resolve func(context.Context, string) ([]netip.Addr, error)
	roads   *reach.Kernel
	server  *server.Server

	alive   context.Context
	stop    context.CancelFunc
	spare   func() // when nothing is carried any more
	serving sync.WaitGroup

	door       *net.TCPListener // nil: closed
	at         uint16
	congestion string
}

func newStand(within func(func() error) error, dial reach.Within, log *slog.Logger) (*stand, error) {
	s := &stand{within: within, dial: dial, resolve: reach.Resolver(dial)}
	if err := within(func() (err error) {
		s.roads, err = reach.OpenKernel()
		return err
	}); err != nil {
		return nil, err
	}
	s.server = server.New(server.Order{}, memlimit.Connections(), &ratelog.Logger{Log: log})
	s.alive, s.stop = context.WithCancel(context.Background())
	s.spare = footprint.Carry()
	return s, nil
}

func (s *stand) obey(w wanted) { s.server.Obey(w.order(s)) }

// open has the door where it is wanted. Who came in by another one stays.
func (s *stand) open(w wanted) error {
	if s.door != nil && s.at != w.port {
		s.door.Close()
		s.door = nil
	}
	if s.door == nil {
		return s.listen(w)
	}
	if s.congestion == w.congestion {
		return nil
	}
	raw, err := s.door.SyscallConn()
	if err == nil {
		err = reach.SetCongestion(raw, w.congestion)
	}
	if err == nil {
		s.congestion = w.congestion
	}
	return err
}

func (s *stand) listen(w wanted) error {
	var door *net.TCPListener
	err := s.within(func() (err error) {
		door, err = server.Listen(s.alive, netip.AddrPortFrom(netip.IPv6Unspecified(), w.port), w.congestion)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			door, err = server.Listen(s.alive, netip.AddrPortFrom(netip.IPv4Unspecified(), w.port), w.congestion)
		}
		return err
	})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("somebody else listens at TCP port %d of this host: end that, or have the relay at another port", w.port)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("TCP port %d is not for this agent: it wants CAP_NET_BIND_SERVICE, or a port of 1024 or more", w.port)
	case err != nil:
		return fmt.Errorf("TCP port %d cannot be opened: %w", w.port, err)
	}
	s.door, s.at, s.congestion = door, w.port, w.congestion
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		s.server.Serve(s.alive, door) // until the door is closed
	}()
	return nil
}

// end cuts everybody.
func (s *stand) end() {
	s.stop()
	s.serving.Wait()
	s.roads.Close()
	s.spare()
}
