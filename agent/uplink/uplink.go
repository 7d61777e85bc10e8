// SPDX-License-Identifier: Apache-2.0

// Package uplink connects to a host over every uplink of this machine.
package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// After this time without a connection, the next attempt begins beside the others.
const staggered = 500 * time.Millisecond

// Dialer connects to one host. It tries the kernel's own choice of an uplink first, and then the other uplinks.
type Dialer struct {
	Greet     Greet
	Control   func(network, address string, socket syscall.RawConn) error
	KeepAlive net.KeepAliveConfig
	Proven    Proven // addresses at which the host was found before
}

// Greet proves that a connection leads to the host.
type Greet func(context.Context, net.Conn) (net.Conn, error)

// TLS greets with a handshake, whose configuration verifies the host.
func TLS(config *tls.Config) Greet {
	return func(ctx context.Context, plain net.Conn) (net.Conn, error) {
		conn := tls.Client(plain, config)
		return conn, conn.HandshakeContext(ctx)
	}
}

// Unanswered means that no connection came about.
type Unanswered struct{ error }

func (u Unanswered) Unwrap() error { return u.error }

// Dial connects to host:port. A failure is that of the attempt that came furthest.
func (d Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, Unanswered{fmt.Errorf("invalid address %q, expected HOST:PORT", address)}
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, Unanswered{fmt.Errorf("invalid port %q in %s", service, address)}
	}
	uplinks := devices()
	addresses, err := d.addresses(ctx, host, uplinks)
	if err != nil {
		return nil, Unanswered{err}
	}
	var attempts []attempt
	for _, each := range addresses {
		to := netip.AddrPortFrom(each, uint16(port))
		for _, way := range waysTo(to, uplinks) {
			attempts = append(attempts, attempt{to, way})
		}
	}
	found, conn, err := race(ctx, attempts, d.try)
	if err != nil {
		return nil, err
	}
	d.Proven.add(host, found.to.Addr())
	return conn, nil
}

// attempt is a connection to one address over one uplink.
type attempt struct {
	to netip.AddrPort
	by way
}

func (d Dialer) try(ctx context.Context, a attempt) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: d.KeepAlive, Control: func(network, address string, socket syscall.RawConn) error {
		if d.Control != nil {
			if err := d.Control(network, address, socket); err != nil {
				return err
			}
		}
		return a.by.bind(network, address, socket)
	}}
	if a.by.source.IsValid() {
		dialer.LocalAddr = &net.TCPAddr{IP: a.by.source.AsSlice()}
	}
	plain, err := dialer.DialContext(ctx, "tcp", a.to.String())
	if err != nil {
		return nil, a.by.named(Unanswered{err})
	}
	conn, err := d.Greet(ctx, plain)
	if err != nil {
		plain.Close()
		return nil, a.by.named(err)
	}
	return conn, nil
}

// race makes attempts until one succeeds. Each begins when all before have failed, or some time after the one before.
func race(ctx context.Context, attempts []attempt, try func(context.Context, attempt) (net.Conn, error)) (attempt, net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		number int
		conn   net.Conn
		err    error
	}
	results := make(chan result, len(attempts))
	failures := make([]error, len(attempts))
	begun, ended := 0, 0
	defer func() {
		go func(left int) {
			for range left {
				if late := <-results; late.conn != nil {
					late.conn.Close()
				}
			}
		}(begun - ended)
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for ended < len(attempts) {
		select {
		case <-next.C:
			if begun < len(attempts) {
				go func(number int) {
					conn, err := try(ctx, attempts[number])
					results <- result{number, conn, err}
				}(begun)
				begun++
				next.Reset(staggered)
			}
		case r := <-results:
			ended++
			if r.err == nil {
				return attempts[r.number], r.conn, nil
			}
			failures[r.number] = r.err
			if begun == ended {
				next.Reset(0)
			}
		}
	}
	return attempt{}, nil, furthest(failures)
}

// furthest returns the first error of a greeting, or else the first error.
func furthest(failures []error) error {
	for _, err := range failures {
		if !errors.As(err, &Unanswered{}) {
			return err
		}
	}
	return failures[0]
}
