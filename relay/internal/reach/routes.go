// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/route"
)

// Kernel queries the route of each address: the kernel always knows the host's current addresses.
type Kernel struct{ conn *netlink.Conn }

// OpenKernel opens a handle for the calling thread's network namespace.
func OpenKernel() (*Kernel, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot query this host's routes: %w", err)
	}
	return &Kernel{conn}, nil
}

// Close closes the handle.
func (k *Kernel) Close() error { return k.conn.Close() }

// Beyond implements Routes.
func (k *Kernel) Beyond(address netip.Addr) error {
	found, err := route.Of(k.conn, route.Packet{To: address})
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES):
		return ErrNoRoute // also for blackhole (EINVAL) and prohibit routes (EACCES)
	case err != nil:
		return fmt.Errorf("cannot determine whether %v is this relay's own (%w)", address, err)
	}
	switch found.Kind {
	case unix.RTN_UNICAST:
		return nil
	case unix.RTN_UNREACHABLE, unix.RTN_BLACKHOLE, unix.RTN_PROHIBIT:
		return ErrNoRoute
	default:
		return fmt.Errorf("%v is the relay's own", address)
	}
}
