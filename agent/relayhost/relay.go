// SPDX-License-Identifier: Apache-2.0

package relayhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"bicast/relay/server"
)

// relay is a running relay. Later orders change its port and congestion control.
type relay struct {
	within func(func() error) error
	server *server.Server

	alive   context.Context
	stop    context.CancelFunc
	serving sync.WaitGroup

	listener   *net.TCPListener // nil: does not listen
	at         uint16
	congestion string
}

func newRelay(within func(func() error) error, server *server.Server) *relay {
	r := &relay{within: within, server: server}
	r.alive, r.stop = context.WithCancel(context.Background())
	return r
}

// open listens at the ordered port. Connections to a previous port continue.
func (r *relay) open(w spec) error {
	if r.listener != nil && r.at != w.port {
		r.listener.Close()
		r.listener = nil
	}
	if r.listener == nil {
		return r.listen(w)
	}
	if r.congestion == w.congestion {
		return nil
	}
	raw, err := r.listener.SyscallConn()
	if err == nil {
		err = server.SetCongestion(raw, w.congestion)
	}
	if err == nil {
		r.congestion = w.congestion
	}
	return err
}

func (r *relay) listen(w spec) error {
	var listener *net.TCPListener
	err := r.within(func() (err error) {
		listener, err = server.Listen(r.alive, netip.AddrPortFrom(netip.IPv6Unspecified(), w.port), w.congestion)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			listener, err = server.Listen(r.alive, netip.AddrPortFrom(netip.IPv4Unspecified(), w.port), w.congestion)
		}
		return err
	})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("another program listens at TCP port %d of this host: stop it, or give the relay another port", w.port)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("the agent may not listen at TCP port %d: grant CAP_NET_BIND_SERVICE, or choose a port from 1024 on", w.port)
	case err != nil:
		return fmt.Errorf("cannot listen at TCP port %d: %w", w.port, err)
	}
	r.listener, r.at, r.congestion = listener, w.port, w.congestion
	r.serving.Add(1)
	go func() {
		defer r.serving.Done()
		r.server.Serve(r.alive, listener) // until the listener is closed
	}()
	return nil
}

// end closes all connections.
func (r *relay) end() {
	r.stop()
	r.serving.Wait()
	r.server.Close()
}
