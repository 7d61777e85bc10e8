// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"bicast/relay/internal/carry"
)

// Ends connections to a relay that vanished after some 8 s, if KeepAlive returns nil.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}

// Dialer returns a dialer for relays, with MPTCP if both ends support it.
func Dialer() *net.Dialer {
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	dialer.SetMultipathTCP(true)
	return dialer
}

// Opening returns a function that dials and completes TLS with the current configuration.
func Opening(
	dial func(context.Context) (*net.TCPConn, error), config func() (*tls.Config, error),
) func(context.Context) (*carry.Secure, error) {
	return func(ctx context.Context) (*carry.Secure, error) {
		shown, err := config()
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		end := carry.Client(conn, shown)
		within := keeperTimeout
		if deadline, limited := ctx.Deadline(); limited {
			within = time.Until(deadline)
		}
		if err := end.Handshake(ctx, within); err != nil {
			end.Reset()
			return nil, err
		}
		if err := end.AwaitAcceptance(within); err != nil {
			end.Reset()
			return nil, err
		}
		return end, nil
	}
}

// KeepAlive returns why keepalive cannot detect a relay that vanished, or nil.
func KeepAlive() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return fmt.Errorf("there are no MPTCP sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepAlive.Idle.Seconds())); err != nil {
		return fmt.Errorf("MPTCP sockets have no keepalive times (%w), expected Linux 6.10 or newer: a connection whose other end vanishes "+
			"waits for net.ipv4.tcp_keepalive_time, 2 h by default", err)
	}
	return nil
}
