// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"fmt"
	"net/netip"
	"time"
)

// Token names an MPTCP connection within its namespace; the kernel gives a free one to another connection later.
type Token uint32

// String is the token as `ss -M` and the command's list print it.
func (t Token) String() string { return fmt.Sprintf("%08x", uint32(t)) }

// PathManager is who decides about a connection's subflows. It is fixed when the connection is born.
type PathManager int

// The path managers; UnknownManager where nobody asked (see Handle.PathManagerOf).
const (
	UnknownManager PathManager = iota
	KernelManager
	UserspaceManager
)

// String is the manager as net.mptcp.path_manager names it.
func (m PathManager) String() string {
	switch m {
	case KernelManager:
		return "kernel"
	case UserspaceManager:
		return "userspace"
	default:
		return "unknown"
	}
}

// Connection is a TCP connection, or an MPTCP connection with its subflows, as it was when it was read.
// Names and units are those of api/agent.proto.
type Connection struct {
	Token         Token // 0: plain TCP, or MPTCP that fell back to it
	Subflows      []Subflow
	BytesSent     uint64 // acknowledged, of the connection, not of its subflows
	BytesReceived uint64
	Serves        bool // this end accepted the connection

	Cookie   uint64 // names the socket for as long as the machine runs, whatever the token does
	Inode    uint64 // of the application's socket; 0 when no process holds it any more
	Extra    int    // subflows beside the initial one, as the path manager counts them
	ExtraMax int    // how many the kernel's path manager may have; 0 under the userspace one
}

// Subflow is one TCP connection of an MPTCP connection, or the whole of a plain one.
type Subflow struct {
	Local, Remote     netip.AddrPort // an IPv4 address is one, also where the application opened an IPv6 socket
	LocalID           uint8
	RemoteID          uint8
	BackupByUs        bool
	BackupByPeer      bool
	Established       bool          // past its handshake, and not closing
	agreed            bool          // the other end has taken it in: more than its handshake's first answer has come
	SRTT              time.Duration // 0: not measured yet
	RTTVar            time.Duration // how much round trips differ
	MinRTT            time.Duration // 0: not measured yet
	CwndSegments      uint32
	MSSBytes          uint32
	InFlightSegments  uint32
	UnackedSegments   uint32 // sent and not acknowledged, those given up for lost among them
	DeliveryRateBPS   uint64
	SegmentsSent      uint64 // with data, retransmissions among them
	SegmentsDelivered uint64 // acknowledged, also selectively
	Retransmits       uint64 // segments, in all
	BytesAcked        uint64
	BytesReceived     uint64
	SinceAck          time.Duration // since the last acknowledgement came
	SinceData         time.Duration // since the last data came

	Cookie uint64
	device uint32 // the socket is bound to this interface, as an endpoint with one makes it
	mapped bool   // the socket is an IPv6 one that carries IPv4 addresses
}

// Backup is what the scheduler goes by: either end's flag is enough.
func (s Subflow) Backup() bool { return s.BackupByUs || s.BackupByPeer }

// String is both ends.
func (s Subflow) String() string { return fmt.Sprintf("%v > %v", s.Local, s.Remote) }

// Whether the two are the same TCP connection, however far apart they were read.
func (s Subflow) same(other Subflow) bool {
	return s.Cookie == other.Cookie && s.Local == other.Local && s.Remote == other.Remote
}

// String names a connection for people.
func (c Connection) String() string {
	ends := "no subflow"
	if len(c.Subflows) > 0 {
		ends = c.Subflows[0].String()
	}
	if c.Token == 0 {
		return "the plain TCP connection " + ends
	}
	return fmt.Sprintf("connection %v (%s)", c.Token, ends)
}
