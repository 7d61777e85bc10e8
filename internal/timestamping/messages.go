// SPDX-License-Identifier: Apache-2.0

package timestamping

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	controlBytes       = 512
	timespecBytes      = 16 // size in SO_TIMESTAMPING_NEW, on every architecture
	softwareStamp      = 0  // index of the kernel's stamp, of three
	hardwareStamp      = 2
	originTimestamping = 4 // SO_EE_ORIGIN_TIMESTAMPING, linux/errqueue.h
)

// receive reads one packet, or with MSG_ERRQUEUE one transmit stamp.
func (s *Socket) receive(b []byte, flags int) (Event, error) {
	control := make([]byte, controlBytes)
	for {
		length, read, _, from, err := unix.RecvmsgBuffers(s.fd, [][]byte{b}, control, flags|unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Event{}, err
		}
		event := Event{Moment: Arrived, Length: length, From: addressOf(from)}
		ours := s.read(&event, control[:read])
		if flags&unix.MSG_ERRQUEUE == 0 || ours {
			return event, nil
		}
	}
}

// read decodes a packet's control messages. For a transmit stamp it reports whether the packet was sent since the
// kernel's last reset of the counter.
func (s *Socket) read(event *Event, control []byte) (ours bool) {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return ours
		}
		control = rest
		switch kind := [2]int{int(header.Level), int(header.Type)}; kind {
		case [2]int{unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW}:
			event.At = s.time(data)
		case [2]int{unix.SOL_IP, unix.IP_TTL}, [2]int{unix.SOL_IPV6, unix.IPV6_HOPLIMIT}:
			event.TTL = int(binary.NativeEndian.Uint32(data))
		case [2]int{unix.SOL_IP, unix.IP_PKTINFO}: // struct in_pktinfo
			event.at = netip.AddrFrom4([4]byte(data[8:]))
		case [2]int{unix.SOL_IPV6, unix.IPV6_PKTINFO}: // struct in6_pktinfo; for IPv4 packets both come, with the same address
			event.at = netip.AddrFrom16([16]byte(data)).Unmap()
		case [2]int{unix.SOL_IP, unix.IP_RECVERR}, [2]int{unix.SOL_IPV6, unix.IPV6_RECVERR}:
			ours = s.identify(event, data)
		}
	}
	return ours
}

func (s *Socket) time(data []byte) int64 {
	which := softwareStamp
	if s.hardware {
		which = hardwareStamp
	}
	if len(data) < (which+1)*timespecBytes {
		return 0
	}
	at := data[which*timespecBytes:]
	return int64(binary.NativeEndian.Uint64(at))*1e9 + int64(binary.NativeEndian.Uint64(at[8:]))
}

// identify decodes a struct sock_extended_err.
func (s *Socket) identify(event *Event, data []byte) bool {
	if len(data) < 16 || data[4] != originTimestamping {
		return false
	}
	event.Moment = Left
	if binary.NativeEndian.Uint32(data[8:]) == unix.SCM_TSTAMP_SCHED {
		event.Moment = Queued
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	counted := binary.NativeEndian.Uint32(data[12:])
	event.ID = s.base + counted
	return counted < s.next-s.base
}

// from encodes our source address of a packet, leaving the device to routing. Without an address the socket's binding
// applies.
func (s *Socket) from(at netip.Addr) []byte {
	switch {
	case !at.IsValid():
		return nil
	case s.six:
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: at.As16()})
	default:
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: at.As4()})
	}
}

func (s *Socket) address(of netip.AddrPort) unix.Sockaddr {
	if s.six {
		address := &unix.SockaddrInet6{Port: int(of.Port()), Addr: of.Addr().As16()}
		if device, err := net.InterfaceByName(of.Addr().Zone()); err == nil {
			address.ZoneId = uint32(device.Index)
		}
		return address
	}
	return &unix.SockaddrInet4{Port: int(of.Port()), Addr: of.Addr().Unmap().As4()}
}

func addressOf(of unix.Sockaddr) netip.AddrPort {
	switch a := of.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		address := netip.AddrFrom16(a.Addr).Unmap()
		if device, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
			address = address.WithZone(device.Name)
		}
		return netip.AddrPortFrom(address, uint16(a.Port))
	default:
		return netip.AddrPort{}
	}
}
