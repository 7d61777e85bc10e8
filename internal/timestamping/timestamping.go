// SPDX-License-Identifier: Apache-2.0

// Package timestamping is a UDP socket (SO_TIMESTAMPING) with the kernel's send and receive times of each packet,
// without the delay of waking a process.
//
//	socket, err := timestamping.Dial(netip.AddrPort{}, to, "") // or Listen(at, ""); in the calling thread's network namespace
//	id, err := socket.Write(packet)                             // or Answer(packet, event); any goroutine
//	event, err := socket.Next(buffer, deadline)                 // one goroutine, all the time
//
// Next returns received packets and the stamps of sent ones, in order. A sent packet has two stamps with the id from
// Write: Queued, when it entered the queue of its device, and Left, when the driver took it; some drivers lack Left.
// Compute the delay of a path from Left: time in our own queue behind other packets is not the path's. Compute waiting
// times, and rates that our own queue shapes, from Queued. Without shaping the two are some microseconds apart, at any
// packet length.
//
// Times are nanoseconds since 1970 by this host's clock, or by the network card's if it stamps both directions
// (Hardware). Nothing is fragmented: Write fails above the device's MTU, and a router with a smaller MTU drops the
// packet.
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

// queueBytes buffers what arrives while this process does not run: packet trains, two stamps per packet.
const queueBytes = 1 << 20

// Moment is the kind of an event's time.
type Moment byte

// Arrived is of received packets, the others are of sent ones.
const (
	Arrived Moment = iota
	Queued
	Left
)

// Event is a packet that arrived, or a stamp of one that was sent.
type Event struct {
	Moment Moment
	At     int64          // nanoseconds since 1970; 0: no stamp, as for the first arrivals
	ID     uint32         // of a sent packet
	Length int            // of a received packet; above len(buffer) if it was truncated
	From   netip.AddrPort // sender of a received packet
	TTL    int            // TTL or hop limit of a received packet

	at netip.Addr // our address that received it; only if the socket listens at all addresses
}

// Socket is a UDP socket with timestamps.
type Socket struct {
	fd, wake int
	six      bool
	anywhere bool // listens at all of the host's addresses, IPv4 too
	hardware bool

	writing    sync.Mutex
	next, base uint32 // the next id; the id of the kernel's count 0
	closing    sync.Once
	closed     chan struct{}
	users      sync.RWMutex // a read lock protects the descriptors in use
}

// Probe returns why this kernel cannot stamp packets, or nil.
func Probe() error {
	socket, err := open(netip.AddrPort{}, netip.AddrPort{}, "")
	if err == nil {
		socket.Close()
	}
	return err
}

// Listen receives from any sender at an address, and with a device only from there. A port without an address means all
// present and future addresses of the host, IPv6 ones too if it has IPv6.
func Listen(at netip.AddrPort, device string) (*Socket, error) {
	switch address := at.Addr(); {
	case address.IsUnspecified() || !address.IsValid() && at.Port() == 0:
		return nil, fmt.Errorf("cannot listen at %v, expected an address of this host", at)
	case address.IsValid():
		return open(at, netip.AddrPort{}, device)
	}
	s, err := open(netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port()), netip.AddrPort{}, device)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return open(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), netip.AddrPort{}, device)
	}
	return s, err
}

// Dial connects to one address, optionally from a local address and by a device.
func Dial(from, to netip.AddrPort, device string) (*Socket, error) {
	if from.IsValid() && from.Addr().Unmap().Is4() != to.Addr().Unmap().Is4() {
		return nil, fmt.Errorf("cannot reach %v from %v: one is IPv4, the other IPv6", to, from)
	}
	return open(from, to, device)
}

func open(from, to netip.AddrPort, device string) (_ *Socket, err error) {
	s := &Socket{fd: -1, wake: -1, closed: make(chan struct{}), anywhere: from.Addr().IsUnspecified() && !to.IsValid()}
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	family := unix.AF_INET
	if either := to; !to.IsValid() && from.Addr().Unmap().Is6() || either.IsValid() && either.Addr().Unmap().Is6() {
		s.six, family = true, unix.AF_INET6
	}
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, fmt.Errorf("cannot open a UDP socket: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("cannot open an eventfd: %w", err)
	}
	if device != "" {
		if err := unix.BindToDevice(s.fd, device); err != nil {
			return nil, fmt.Errorf("cannot bind the socket to the device %s: %w", device, err)
		}
	}
	if err := s.setOptions(); err != nil {
		return nil, err
	}
	if from.IsValid() {
		if err := unix.Bind(s.fd, s.address(from)); err != nil {
			return nil, fmt.Errorf("cannot bind to %v: %w", from, err)
		}
	}
	if to.IsValid() {
		if err := unix.Connect(s.fd, s.address(to)); err != nil {
			return nil, fmt.Errorf("cannot reach %v: %w", to, err)
		}
	}
	s.hardware = stampsInHardware(s.fd, s.Local().Addr(), device)
	return s, s.count(true)
}

// setOptions disables fragmentation and ignores routers' MTU reports, which anyone can forge.
func (s *Socket) setOptions() error {
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
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, queueBytes) // without the privilege the default size stays
	}
	for _, each := range options {
		if err := unix.SetsockoptInt(s.fd, each[0], each[1], each[2]); err != nil {
			return fmt.Errorf("cannot set the option %d of a UDP socket: %w", each[1], err)
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

const softwareFlags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE |
	unix.SOF_TIMESTAMPING_TX_SCHED | unix.SOF_TIMESTAMPING_OPT_TSONLY

const hardwareFlags = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE

// count enables stamps. on also counts packets; switching it off and on resets the count to 0.
func (s *Socket) count(on bool) error {
	flags := softwareFlags
	if s.hardware { // without stamps of a second clock
		flags = flags&^(unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_TX_SOFTWARE|unix.SOF_TIMESTAMPING_TX_SCHED) | hardwareFlags
	}
	if on {
		flags |= unix.SOF_TIMESTAMPING_OPT_ID
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, flags); err != nil {
		return fmt.Errorf("the kernel cannot stamp packets (SO_TIMESTAMPING needs Linux 5.1): %w", err)
	}
	return nil
}

// Hardware reports whether all times are by the network card's clock.
func (s *Socket) Hardware() bool { return s.hardware }

// Local returns the address that the socket is bound to.
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

// Write sends to the dialled address and returns the id of the packet's stamps.
func (s *Socket) Write(b []byte) (uint32, error) { return s.send(b, nil, nil) }

// Answer sends to the sender of a packet, from the address that received it.
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
		// Kernels differ in which failures they count, so reset the count to 0.
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

// Next waits for the next event. It returns os.ErrDeadlineExceeded at a nonzero deadline, and net.ErrClosed after
// Close. Other errors concern earlier packets, such as ECONNREFUSED: call Next again.
func (s *Socket) Next(b []byte, deadline time.Time) (Event, error) {
	if !s.use() {
		return Event{}, net.ErrClosed
	}
	defer s.users.RUnlock()
	for {
		for _, flags := range []int{unix.MSG_ERRQUEUE, 0} { // transmit stamps come first: a packet is sent before it is answered
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

// use locks the descriptors, or returns false after Close. The caller unlocks users.
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

// Close closes the socket and ends Next.
func (s *Socket) Close() {
	s.closing.Do(func() {
		unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		s.users.Lock()
		defer s.users.Unlock()
		close(s.closed)
		s.closeFiles()
	})
}

func (s *Socket) closeFiles() {
	for _, fd := range []int{s.fd, s.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
