// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// synProbe is a TCP connection that is reset as soon as the handshake answers.
type synProbe struct {
	fd     int
	number int
}

// probeSYN sends a SYN from the calling thread's network namespace.
func probeSYN(to netip.AddrPort, number int) (synProbe, error) {
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return synProbe{}, err
	}
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return synProbe{}, err
	}
	return synProbe{fd, number}, nil
}

func (d synProbe) close() { unix.Close(d.fd) }

// answered reports whether the host answered, possibly with a RST, and how long ago if that is known.
func (d synProbe) answered(sent, now time.Duration) (age time.Duration, ok bool) {
	socketError, err := unix.GetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return 0, false
	case unix.Errno(socketError) == unix.ECONNREFUSED:
		return 0, true
	case socketError != 0:
		return 0, false
	}
	info, err := unix.GetsockoptTCPInfo(d.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Rtt == 0 { // Karn: the SYN was retransmitted
		return 0, false
	}
	return max(0, now-sent-time.Duration(info.Rtt)*time.Microsecond), true
}
