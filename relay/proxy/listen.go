// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// listen opens the proxy's listeners for IPv4 and IPv6 at loopback addresses, which only redirected packets reach. A
// host without IPv6 has one listener. Packets to terminals carry the mark.
func listen(ctx context.Context, port uint16, mark int) (four, six *net.TCPListener, err error) {
	if four, err = listenAt(ctx, "tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), mark); err != nil {
		return nil, nil, err
	}
	six, err = listenAt(ctx, "tcp6", netip.AddrPortFrom(netip.IPv6Loopback(), port), mark)
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
		return four, nil, nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, four.Close())
	}
	return four, six, nil
}

func listenAt(ctx context.Context, network string, at netip.AddrPort, mark int) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(network, address string, raw syscall.RawConn) error {
		var refused error
		err := raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
		return errors.Join(err, refused, transparent(network, address, raw))
	}}
	config.SetMultipathTCP(false) // terminals get plain TCP: the multiple paths are behind this proxy
	listener, err := config.Listen(ctx, network, at.String())
	if err != nil {
		return nil, fmt.Errorf("cannot listen for terminals' connections at %v: %w", at, err)
	}
	return listener.(*net.TCPListener), nil
}

// transparent lets a socket use addresses that this host does not have.
func transparent(network, _ string, raw syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
	if network == "tcp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
	}
	var refused error
	err := raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, refused)
}
