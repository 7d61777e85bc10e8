// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	connectTimeout   = 10 * time.Second // without a relay
	nextAddressDelay = 400 * time.Millisecond
)

// AsTerminal connects from the terminal's address, so that policies by source apply in the bridge and in filters. The
// port differs: conntrack would merge both connections otherwise.
func AsTerminal(ctx context.Context, terminal netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{
		Timeout: connectTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(terminal, 0)),
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

// Locals are addresses of this host that speak for a terminal, the best first.
type Locals struct {
	Within func(context.Context, func() error) error // runs work in the network namespace that has the addresses

	current atomic.Pointer[[]netip.Addr]
}

// Set replaces the addresses for new connections.
func (l *Locals) Set(locals []netip.Addr) { l.current.Store(&locals) }

// All returns the addresses of both families.
func (l *Locals) All() []netip.Addr { return *l.current.Load() }

// Of returns the addresses of a destination's family.
func (l *Locals) Of(to netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(l.All()), func(local netip.Addr) bool { return local.Is4() != to.Unmap().Is4() })
}

// Direct connects without a relay.
func (l *Locals) Direct(ctx context.Context, _ netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	dialer.SetMultipathTCP(false)
	return l.Dial(ctx, dialer, to)
}

// Dial connects from the best address. After a delay without an answer it also tries the next one; the first answer
// wins.
func (l *Locals) Dial(ctx context.Context, dialer net.Dialer, to netip.AddrPort) (*net.TCPConn, error) {
	locals := l.Of(to.Addr())
	if len(locals) == 0 {
		return nil, fmt.Errorf("%v cannot be reached: no uplink has an address of that family for the terminal", to)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tries, over := make(chan try), make(chan struct{})
	defer close(over)
	next := time.NewTimer(0)
	defer next.Stop()
	var failures []error
	for begun := 0; len(failures) < len(locals); {
		select {
		case <-next.C:
			if begun < len(locals) {
				go l.from(ctx, dialer, locals[begun], to, tries, over)
				begun++
				next.Reset(nextAddressDelay)
			}
		case one := <-tries:
			if one.err == nil || errors.Is(one.err, unix.ECONNREFUSED) { // a refusal is an answer
				return one.conn, one.err
			}
			failures = append(failures, one.err)
			next.Reset(0)
		}
	}
	return nil, errors.Join(failures...)
}

type try struct {
	conn *net.TCPConn
	err  error
}

// from dials from one local address; it closes the connection if the caller has finished.
func (l *Locals) from(ctx context.Context, dialer net.Dialer, local netip.Addr, to netip.AddrPort, tries chan<- try, over <-chan struct{}) {
	dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	var one try
	one.err = l.Within(ctx, func() error {
		conn, err := dialer.DialContext(ctx, "tcp", to.String())
		if err == nil {
			one.conn = conn.(*net.TCPConn)
		}
		return err
	})
	select {
	case tries <- one:
	case <-over:
		if one.conn != nil {
			one.conn.Close()
		}
	}
}
