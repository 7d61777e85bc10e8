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

// How long a name may take, and then a destination.
const (
	resolveWithin = 5 * time.Second
	connectWithin = 10 * time.Second
)

// Reach is a relay's.
type Reach struct {
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Within  Within // runs in the network namespace that connections are made from
	Roads   Roads
}

// Within runs work somewhere; it does not begin when the context has ended.
type Within func(context.Context, func() error) error

// Control is a net.Dialer's.
type Control func(network, address string, raw syscall.RawConn) error

// Roads is the kernel's table of routes.
type Roads interface {
	// Beyond is nil where packets for an address leave this host, or says what becomes of them.
	Beyond(netip.Addr) error
}

// ErrNoRoad is of an address to which there is no way from here.
var ErrNoRoad = errors.New("this relay has no way there")

// Connect makes the connection to a target, or says why not; control sets the options of its socket. A name is resolved once; what
// is checked is what is then connected to.
func (r *Reach) Connect(ctx context.Context, target httpconnect.Target, control Control) (*net.TCPConn, *httpconnect.Answer) {
	addresses, refusal := r.addresses(ctx, target)
	if refusal != nil {
		return nil, refusal
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
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

// addresses are those that may be connected to, in the order in which they are tried.
func (r *Reach) addresses(ctx context.Context, target httpconnect.Target) ([]netip.Addr, *httpconnect.Answer) {
	found := []netip.Addr{target.Address}
	if !target.Address.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, resolveWithin)
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
		return httpconnect.No(httpconnect.Forbidden, "no relay reaches that: %v", err)
	}
	switch err := r.Roads.Beyond(address); {
	case errors.Is(err, ErrNoRoad):
		return httpconnect.No(httpconnect.Unable, "%v: %v", address, err)
	case err != nil:
		return httpconnect.No(httpconnect.Forbidden, "no relay reaches that: %v", err)
	}
	return nil
}

func unresolved(name string, err error) *httpconnect.Answer {
	var wrong *net.DNSError
	switch {
	case errors.As(err, &wrong) && wrong.IsNotFound:
		return httpconnect.No(httpconnect.Refused, "there is no %s", name)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &wrong) && wrong.IsTimeout:
		return httpconnect.No(httpconnect.Unanswering, "nobody says within %v which addresses %s has", resolveWithin, name)
	default:
		return httpconnect.No(httpconnect.Unable, "which addresses %s has cannot be found out by this relay", name)
	}
}

// dial gives one address its part of the time that is left.
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
		return nil, httpconnect.No(httpconnect.Refused, "%v refuses", to)
	case errors.As(err, &late) && late.Timeout():
		return nil, httpconnect.No(httpconnect.Unanswering, "%v does not answer", to)
	case errors.Is(err, unix.EHOSTUNREACH):
		return nil, httpconnect.No(httpconnect.Refused, "%v cannot be reached", to)
	default:
		return nil, httpconnect.No(httpconnect.Unable, "this relay cannot connect to %v", to)
	}
}

// Resolver asks as this host is set up to, from the network namespace that within is of.
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
