// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bicast/relay/internal/httpconnect"
)

// Time limits for resolving a name, and then for connecting.
const (
	resolveTimeout = 5 * time.Second
	connectTimeout = 10 * time.Second
)

// Reach connects a relay to servers.
type Reach struct {
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Within  Within // runs work in the network namespace of the connections
	Routes  Routes
}

// Within runs work in some environment, unless the context has ended.
type Within func(context.Context, func() error) error

// Control is the type of net.Dialer's Control.
type Control func(network, address string, raw syscall.RawConn) error

// Routes queries the kernel's routes.
type Routes interface {
	// Beyond returns nil if packets to an address leave this host, or why not.
	Beyond(netip.Addr) error
}

// ErrNoRoute means that there is no route to an address.
var ErrNoRoute = errors.New("this relay has no route there")

// Connect connects to a target, or returns a refusal; control sets socket options. It resolves a name once, and
// connects only to addresses that it has checked.
func (r *Reach) Connect(ctx context.Context, target httpconnect.Target, control Control) (*net.TCPConn, *httpconnect.Answer) {
	addresses, refusal := r.addresses(ctx, target)
	if refusal != nil {
		return nil, refusal
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for i, address := range addresses {
		var conn *net.TCPConn
		conn, refusal = r.dial(ctx, netip.AddrPortFrom(address, target.Port), len(addresses)-i, control)
		if refusal == nil {
			return conn, nil
		}
	}
	return nil, refusal
}

// addresses returns the permitted addresses, in the order of attempts.
func (r *Reach) addresses(ctx context.Context, target httpconnect.Target) ([]netip.Addr, *httpconnect.Answer) {
	found := []netip.Addr{target.Address}
	if !target.Address.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		var err error
		if found, err = r.Resolve(ctx, target.Name); err != nil {
			return nil, unresolved(target.Name, err)
		}
	}
	var allowed []netip.Addr
	refusal := httpconnect.No(httpconnect.Refused, "%s has no address", target.Name)
	for _, address := range found {
		if no := r.allows(address); no != nil {
			refusal = no
			continue
		}
		allowed = append(allowed, address)
	}
	if allowed != nil {
		refusal = nil
	}
	return allowed, refusal
}

func (r *Reach) allows(address netip.Addr) *httpconnect.Answer {
	if err := Public(address); err != nil {
		return httpconnect.No(httpconnect.Forbidden, "relays may not reach this address: %v", err)
	}
	switch err := r.Routes.Beyond(address); {
	case errors.Is(err, ErrNoRoute):
		return httpconnect.No(httpconnect.Unable, "%v: %v", address, err)
	case err != nil:
		return httpconnect.No(httpconnect.Forbidden, "relays may not reach this address: %v", err)
	}
	return nil
}

func unresolved(name string, err error) *httpconnect.Answer {
	var wrong *net.DNSError
	switch {
	case errors.As(err, &wrong) && wrong.IsNotFound:
		return httpconnect.No(httpconnect.Refused, "there is no %s", name)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &wrong) && wrong.IsTimeout:
		return httpconnect.No(httpconnect.Unanswering, "no resolver answered within %v for %s", resolveTimeout, name)
	default:
		return httpconnect.No(httpconnect.Unable, "this relay cannot resolve %s", name)
	}
}

// dial tries one address with its share of the remaining time.
func (r *Reach) dial(ctx context.Context, to netip.AddrPort, left int, control Control) (*net.TCPConn, *httpconnect.Answer) {
	if deadline, limited := ctx.Deadline(); limited && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	dialer := net.Dialer{Control: control}
	dialer.SetMultipathTCP(false)
	var conn net.Conn
	err := r.Within(ctx, func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", to.String())
		return err
	})
	var late net.Error
	switch {
	case err == nil:
		return conn.(*net.TCPConn), nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return nil, httpconnect.No(httpconnect.Refused, "%v refuses the connection", to)
	case errors.As(err, &late) && late.Timeout():
		return nil, httpconnect.No(httpconnect.Unanswering, "%v does not answer", to)
	case errors.Is(err, unix.EHOSTUNREACH):
		return nil, httpconnect.No(httpconnect.Refused, "%v cannot be reached", to)
	default:
		return nil, httpconnect.No(httpconnect.Unable, "this relay cannot connect to %v", to)
	}
}

// Resolver returns a resolver with the host's configuration, in the network namespace of within.
func Resolver(within Within) func(context.Context, string) ([]netip.Addr, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = within(ctx, func() (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	return func(ctx context.Context, name string) ([]netip.Addr, error) {
		addresses, err := resolver.LookupNetIP(ctx, "ip", name)
		for i := range addresses {
			addresses[i] = addresses[i].Unmap()
		}
		return addresses, err
	}
}
