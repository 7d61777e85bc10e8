// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const batch = 64 // datagrams read from one queue at a time

// socket sends ICMP echoes to one address and receives the answers. A missing route shows as an error of each probe.
type socket struct {
	fd int
	packets
	hops int // current TTL; 0: the kernel's default
}

// heard is one answer.
type heard struct {
	number int
	word   verdict
	from   netip.Addr
	age    time.Duration // since its arrival
}

// Probe returns the reason why this host cannot send pings, or nil.
func Probe() error {
	s, err := open(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		return fmt.Errorf("this host cannot send pings, so it measures by TCP alone and finds no routers: %w", err)
	}
	s.close()
	return nil
}

// open opens a socket in the calling thread's network namespace. It tries the unprivileged kind first.
func open(to netip.Addr) (*socket, error) {
	s, err := openAs(unix.SOCK_DGRAM, to)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		s, err = openAs(unix.SOCK_RAW, to)
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("pings need CAP_NET_RAW, or a group in net.ipv4.ping_group_range (%w)", err)
	}
	return s, err
}

func openAs(how int, to netip.Addr) (_ *socket, err error) {
	s := &socket{packets: packets{six: to.Is6(), raw: how == unix.SOCK_RAW}}
	if _, err := rand.Read(s.token[:]); err != nil {
		return nil, err
	}
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	hears := [][3]int{{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1}, {unix.SOL_IP, unix.IP_RECVERR, 1}}
	if s.six {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
		hears[1] = [3]int{unix.SOL_IPV6, unix.IPV6_RECVERR, 1}
	}
	if s.raw {
		s.identifier = binary.NativeEndian.Uint16(s.token[:])
	}
	if s.fd, err = unix.Socket(family, how|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol); err != nil {
		return nil, err
	}
	for _, each := range hears {
		err = errors.Join(err, unix.SetsockoptInt(s.fd, each[0], each[1], each[2]))
	}
	if err = errors.Join(err, unix.Connect(s.fd, sockaddr(netip.AddrPortFrom(to, 0)))); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	}
	return &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
}

func (s *socket) close() { unix.Close(s.fd) }

// send sends an echo with this number and TTL; 0 is the default TTL.
func (s *socket) send(number, hops int) error {
	if hops != s.hops {
		level, option, value := unix.SOL_IP, unix.IP_TTL, hops
		if s.six {
			level, option = unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS
		}
		if hops == 0 {
			value = -1
		}
		if err := unix.SetsockoptInt(s.fd, level, option, value); err != nil {
			return err
		}
		s.hops = hops
	}
	var err error
	for range 3 { // the first call may return the pending error of an earlier packet
		if err = unix.Send(s.fd, s.echoRequest(number), 0); err == nil {
			return nil
		}
	}
	return err
}

// hear returns the answers that have arrived.
func (s *socket) hear() (all []heard) {
	for _, flags := range []int{unix.MSG_ERRQUEUE, 0} {
		for range batch {
			one, ours, err := s.receive(flags)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if ours {
				all = append(all, one)
			}
		}
	}
	return all
}

func (s *socket) receive(flags int) (one heard, ours bool, err error) {
	var b [512]byte
	var control [512]byte
	n, read, _, _, err := unix.Recvmsg(s.fd, b[:], control[:], flags|unix.MSG_DONTWAIT)
	if err != nil {
		return one, false, err
	}
	now := time.Now()
	if flags == 0 {
		one.number, ours = s.answered(b[:n])
	}
	for rest := control[:read]; len(rest) > 0; {
		header, data, behind, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		rest = behind
		switch [2]int{int(header.Level), int(header.Type)} {
		case [2]int{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW}:
			one.age = ageOf(data, now)
		case [2]int{unix.SOL_IP, unix.IP_RECVERR}, [2]int{unix.SOL_IPV6, unix.IPV6_RECVERR}:
			one.number, one.word, one.from, ours = s.icmpError(b[:n], data)
		}
	}
	return one, ours, nil
}

// ageOf reads a struct __kernel_timespec. It returns 0 if the clock was set meanwhile.
func ageOf(stamp []byte, now time.Time) time.Duration {
	if len(stamp) < 16 {
		return 0
	}
	at := time.Unix(int64(binary.NativeEndian.Uint64(stamp)), int64(binary.NativeEndian.Uint64(stamp[8:])))
	if age := now.Sub(at); age > 0 && age < patience {
		return age
	}
	return 0
}
