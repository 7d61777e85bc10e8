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

// relay serves from the order that begins it to the one that ends it.
type relay struct {
	within func(func() error) error
	server *server.Server

	alive   context.Context
	stop    context.CancelFunc
	serving sync.WaitGroup

	door       *net.TCPListener // nil: closed
	at         uint16
	congestion string
}

func newRelay(within func(func() error) error, server *server.Server) *relay {
	r := &relay{within: within, server: server}
	r.alive, r.stop = context.WithCancel(context.Background())
	return r
}

// open has the door where it is wanted. Who came in by another one stays.
func (r *relay) open(w wanted) error {
	if r.door != nil && r.at != w.port {
		r.door.Close()
		r.door = nil
	}
	if r.door == nil {
		return r.listen(w)
	}
	if r.congestion == w.congestion {
		return nil
	}
	raw, err := r.door.SyscallConn()
	if err == nil {
		err = server.SetCongestion(raw, w.congestion)
	}
	if err == nil {
		r.congestion = w.congestion
	}
	return err
}

func (r *relay) listen(w wanted) error {
	var door *net.TCPListener
	err := r.within(func() (err error) {
		door, err = server.Listen(r.alive, netip.AddrPortFrom(netip.IPv6Unspecified(), w.port), w.congestion)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			door, err = server.Listen(r.alive, netip.AddrPortFrom(netip.IPv4Unspecified(), w.port), w.congestion)
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
	r.door, r.at, r.congestion = door, w.port, w.congestion
	r.serving.Add(1)
	go func() {
		defer r.serving.Done()
		r.server.Serve(r.alive, door) // until the door is closed
	}()
	return nil
}

// end cuts everybody.
func (r *relay) end() {
	r.stop()
	r.serving.Wait()
	r.server.Close()
}
