// SPDX-License-Identifier: Apache-2.0

// Package timestamping is a UDP socket (SO_TIMESTAMPING) that knows from the kernel when each packet left and arrived, without
// the time that a process takes to be woken.
//
//	socket, err := timestamping.Dial(netip.AddrPort{}, to, "") // or Listen(at, ""); in the calling thread's network namespace
//	id, err := socket.Write(packet)                             // or Answer(packet, event); any goroutine
//	event, err := socket.Next(buffer, deadline)                 // one goroutine, all the time
//
// Next gives what arrived and the stamps of what was sent, as they come. A packet that is sent has two stamps, with the id
// that Write gave: Queued, as it went into the queue of its device, and Left, as the driver took it; on some drivers there
// is none when it left. The delay of a path, by single packets, is told from when they left: what waited in our own queue
// behind others' packets is not the path's. What somebody has to wait, and a rate that our own queue is shaped to, is told
// from when they were queued. Packets that nothing shapes have some microseconds between the two, whatever their length.
//
// Times are nanoseconds since 1970 of this host's clock; of the network card's where it stamps both what comes and what goes
// (Hardware). Nothing is fragmented: what is longer than the device's MTU cannot be written, and is lost where a router has a smaller one.
package timestamping

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// queueBytes holds what comes while this process stands still: trains of packets, two stamps for each.
const queueBytes = 1 << 20

// Moment is what an event tells the time of.
type Moment byte

// Of a packet that came, and of one that was sent.
const (
	Arrived Moment = iota
	Queued
	Left
)

// Event is a packet that arrived, or a stamp of one that was sent.
type Event struct {
	Moment Moment
	At     int64          // nanoseconds since 1970; 0: the kernel has no stamp of it, as of the first ones that arrive
	ID     uint32         // of what was sent
	Length int            // of what arrived, in the buffer; more than that has where it did not go in
	From   netip.AddrPort // of what arrived
	TTL    int            // of what arrived, or its hop limit

	at netip.Addr // of ours, where it arrived; only of a socket at all of them
}

// Socket is open until it is closed.
type Socket struct {
	fd, wake int
	six      bool
	anywhere bool // at all of the host's addresses, of IPv4, too
	hardware bool

	writing    sync.Mutex
	next, base uint32 // the id to give; what the kernel counts from
	closing    sync.Once
	closed     chan struct{}
	users      sync.RWMutex // who holds it to read uses the descriptors
}

// Probe tells why this kernel stamps no packets; nil where it does.
func Probe() error {
	socket, err := open(netip.AddrPort{}, netip.AddrPort{}, "")
	if err == nil {
		socket.Close()
	}
	return err
}

// Listen hears everybody at an address, and with a device by that alone. A port without an address is of all addresses that
// the host has and gets, also by IPv6 where it has that.
func Listen(at netip.AddrPort, device string) (*Socket, error) {
	switch address := at.Addr(); {
	case address.IsUnspecified() || !address.IsValid() && at.Port() == 0:
		return nil, fmt.Errorf("expected an address of this host to listen at, not %v", at)
	case address.IsValid():
		return open(at, netip.AddrPort{}, device)
	}
	s, err := open(netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port()), netip.AddrPort{}, device)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return open(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), netip.AddrPort{}, device)
	}
	return s, err
}

// Dial talks to one address, from one of ours and by a device where they are given.
func Dial(from, to netip.AddrPort, device string) (*Socket, error) {
	if from.IsValid() && from.Addr().Unmap().Is4() != to.Addr().Unmap().Is4() {
		return nil, fmt.Errorf("%v cannot be reached from %v: one is IPv4, the other IPv6", to, from)
	}
	return open(from, to, device)
}

func open(from, to netip.AddrPort, device string) (_ *Socket, err error) {
	s := &Socket{fd: -1, wake: -1, closed: make(chan struct{}), anywhere: from.Addr().IsUnspecified() && !to.IsValid()}
	defer func() {
		if err != nil {
			s.give()
		}
	}()
	family := unix.AF_INET
	if either := to; !to.IsValid() && from.Addr().Unmap().Is6() || either.IsValid() && either.Addr().Unmap().Is6() {
		s.six, family = true, unix.AF_INET6
	}
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, fmt.Errorf("no UDP socket: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("no eventfd: %w", err)
	}
	if device != "" {
		if err := unix.BindToDevice(s.fd, device); err != nil {
			return nil, fmt.Errorf("packets cannot go by the device %s: %w", device, err)
		}
	}
	if err := s.whole(); err != nil {
		return nil, err
	}
	if from.IsValid() {
		if err := unix.Bind(s.fd, s.address(from)); err != nil {
			return nil, fmt.Errorf("%v cannot be bound: %w", from, err)
		}
	}
	if to.IsValid() {
		if err := unix.Connect(s.fd, s.address(to)); err != nil {
			return nil, fmt.Errorf("%v cannot be reached: %w", to, err)
		}
	}
	s.hardware = stampsItself(s.fd, s.Local().Addr(), device)
	return s, s.count(true)
}

// whole keeps packets from being fragmented, without hearing what routers say of it: whoever forges that decides nothing.
func (s *Socket) whole() error {
	four := [][3]int{
		{unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}, {unix.SOL_IP, unix.IP_RECVTTL, 1},
		{unix.SOL_IP, unix.IP_PKTINFO, asOption(s.anywhere)},
	}
	six := [][3]int{
		{unix.SOL_IPV6, unix.IPV6_V6ONLY, asOption(!s.anywhere)}, {unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		{unix.SOL_IPV6, unix.IPV6_DONTFRAG, 1}, {unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
		{unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, asOption(s.anywhere)},
	}
	var options [][3]int
	if !s.six || s.anywhere {
		options = append(options, four...)
	}
	if s.six {
		options = append(options, six...)
	}
	for _, force := range []int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, queueBytes) // who may not has as much as everybody
	}
	for _, each := range options {
		if err := unix.SetsockoptInt(s.fd, each[0], each[1], each[2]); err != nil {
			return fmt.Errorf("a UDP socket's option %d: %w", each[1], err)
		}
	}
	return nil
}

func asOption(on bool) int {
	if on {
		return 1
	}
	return 0
}

const stampings = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE |
	unix.SOF_TIMESTAMPING_TX_SCHED | unix.SOF_TIMESTAMPING_OPT_TSONLY

const hardwareStampings = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE

// count has the kernel stamp packets, and count those that are sent; switching that off and on makes it count from 0.
func (s *Socket) count(on bool) error {
	flags := stampings
	if s.hardware { // and no stamp of another clock beside it
		flags = flags&^(unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_TX_SOFTWARE|unix.SOF_TIMESTAMPING_TX_SCHED) | hardwareStampings
	}
	if on {
		flags |= unix.SOF_TIMESTAMPING_OPT_ID
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, flags); err != nil {
		return fmt.Errorf("the kernel stamps no packets (SO_TIMESTAMPING, since Linux 5.1): %w", err)
	}
	return nil
}

// Hardware tells whether the network card's own clock is the one of all times.
func (s *Socket) Hardware() bool { return s.hardware }

// Local is where it is bound.
func (s *Socket) Local() netip.AddrPort {
	if !s.use() {
		return netip.AddrPort{}
	}
	defer s.users.RUnlock()
	address, err := unix.Getsockname(s.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addressOf(address)
}

// Write sends to the address that was dialled; its id is what the packet's stamps have.
func (s *Socket) Write(b []byte) (uint32, error) { return s.send(b, nil, nil) }

// Answer sends to whom a packet came from, from the address that it came to.
func (s *Socket) Answer(b []byte, event Event) (uint32, error) {
	return s.send(b, s.from(event.at), s.address(event.From))
}

func (s *Socket) send(b, control []byte, to unix.Sockaddr) (uint32, error) {
	if !s.use() {
		return 0, net.ErrClosed
	}
	defer s.users.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.write(b, control, to); err != nil {
		// Which failures are counted differs from kernel to kernel: it shall count from 0 again.
		s.base = s.next
		return 0, errors.Join(err, s.count(false), s.count(true))
	}
	s.next++
	return s.next - 1, nil
}

func (s *Socket) write(b, control []byte, to unix.Sockaddr) error {
	for {
		err := unix.Sendmsg(s.fd, b, control, to, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Next awaits what happens: os.ErrDeadlineExceeded at a deadline, where it is not zero, net.ErrClosed once it is closed.
// What it says else is of the packets before, such as that nobody listens there (ECONNREFUSED): it can be asked again.
func (s *Socket) Next(b []byte, deadline time.Time) (Event, error) {
	if !s.use() {
		return Event{}, net.ErrClosed
	}
	defer s.users.RUnlock()
	for {
		for _, flags := range []int{unix.MSG_ERRQUEUE, 0} { // a packet was sent before it is answered
			event, err := s.receive(b, flags)
			if err == nil || !errors.Is(err, unix.EAGAIN) {
				return event, err
			}
		}
		if err := s.await(deadline); err != nil {
			return Event{}, err
		}
	}
}

func (s *Socket) await(deadline time.Time) error {
	wait := -1
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		wait = int(min((left+time.Millisecond-1)/time.Millisecond, time.Hour/time.Millisecond))
	}
	ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.wake), Events: unix.POLLIN}}
	if _, err := unix.Poll(ready, wait); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if ready[1].Revents != 0 {
		return net.ErrClosed
	}
	return nil
}

// use is false once it is closed; else who has it gives it back.
func (s *Socket) use() bool {
	s.users.RLock()
	select {
	case <-s.closed:
		s.users.RUnlock()
		return false
	default:
		return true
	}
}

// Close ends Next and all else.
func (s *Socket) Close() {
	s.closing.Do(func() {
		unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		s.users.Lock()
		defer s.users.Unlock()
		close(s.closed)
		s.give()
	})
}

func (s *Socket) give() {
	for _, fd := range []int{s.fd, s.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
