// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"fmt"
	"net/netip"
	"time"
)

// Token names an MPTCP connection within its namespace. The kernel reuses tokens of ended connections.
type Token uint32

// String returns the token as `ss -M` prints it.
func (t Token) String() string { return fmt.Sprintf("%08x", uint32(t)) }

// PathManager decides about a connection's subflows. It is fixed when the connection is created.
type PathManager int

// UnknownManager means that the path manager was not read (see Handle.PathManagerOf).
const (
	UnknownManager PathManager = iota
	KernelManager
	UserspaceManager
)

// String returns the name of the manager in net.mptcp.path_manager.
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

// Connection is a snapshot of a TCP connection, or of an MPTCP connection with its subflows. Names and units are those
// of api/agent.proto.
type Connection struct {
	Token         Token // 0: plain TCP, or MPTCP that fell back to it
	Subflows      []Subflow
	BytesSent     uint64 // acknowledged, at connection level
	BytesReceived uint64
	Serves        bool // this end accepted the connection

	Cookie   uint64 // unique until reboot, unlike the token
	Inode    uint64 // of the application's socket; 0 after the process closed it
	Extra    int    // subflows beside the initial one, as the path manager counts them
	ExtraMax int    // limit of the kernel's path manager; 0 under the userspace one
}

// Subflow is one TCP connection of an MPTCP connection, or a plain TCP connection.
type Subflow struct {
	Local, Remote     netip.AddrPort // IPv4 addresses are unmapped, even on an IPv6 socket
	LocalID           uint8
	RemoteID          uint8
	BackupByUs        bool
	BackupByPeer      bool
	Established       bool          // after its handshake, and not closing
	accepted          bool          // the peer has accepted it (fully established)
	SRTT              time.Duration // 0: not measured yet
	RTTVar            time.Duration // round-trip time variation
	MinRTT            time.Duration // 0: not measured yet
	CwndSegments      uint32
	MSSBytes          uint32
	InFlightSegments  uint32
	UnackedSegments   uint32 // sent and not acknowledged, lost ones included
	DeliveryRateBPS   uint64
	SegmentsSent      uint64 // with data, retransmissions included
	SegmentsDelivered uint64 // acknowledged, selectively too
	Retransmits       uint64 // segments, in total
	BytesAcked        uint64
	BytesReceived     uint64
	SinceAck          time.Duration // since the last ACK came
	SinceData         time.Duration // since the last data came

	Cookie uint64
	device uint32 // ifindex that the socket is bound to, as by an endpoint with an interface
	mapped bool   // an IPv6 socket with IPv4 addresses
}

// Backup tells whether the scheduler treats the subflow as backup: either end's flag is enough.
func (s Subflow) Backup() bool { return s.BackupByUs || s.BackupByPeer }

// String returns both ends.
func (s Subflow) String() string { return fmt.Sprintf("%v > %v", s.Local, s.Remote) }

// same tells whether both values are snapshots of the same TCP connection.
func (s Subflow) same(other Subflow) bool {
	return s.Cookie == other.Cookie && s.Local == other.Local && s.Remote == other.Remote
}

// String describes a connection for people.
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
