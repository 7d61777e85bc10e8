// SPDX-License-Identifier: Apache-2.0

// Package report builds the agent's reports from the state of the kernel.
package report

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/mptcp"
)

// maxBytes keeps a report well below the controller's limit for a message (4 MiB).
const maxBytes = 2 << 20

// Reader reads the state of this host's network namespace.
type Reader struct {
	Connections func() ([]mptcp.Connection, error)
	Links       func() ([]Link, error)
	Monotonic   func() time.Duration
	Devices     func() []*agentv1.LanDevice // nil: this host serves no LAN

	before time.Duration
}

// Read returns a report without its sequence number, which the session sets.
func (r *Reader) Read() (*agentv1.Report, error) {
	now := r.Monotonic()
	connections, err := r.Connections()
	if err != nil {
		return nil, err
	}
	links, err := r.Links()
	if err != nil {
		return nil, err
	}
	report := &agentv1.Report{MonotonicUs: uint64(now.Microseconds()), Cost: ownCost()}
	if r.before != 0 {
		report.IntervalMs = uint32((now - r.before).Milliseconds())
	}
	r.before = now
	for _, link := range links {
		if !link.Loopback {
			report.Interfaces = append(report.Interfaces, link.message())
		}
	}
	if r.Devices != nil {
		report.Devices = r.Devices()
	}
	report.Connections, report.ConnectionsLeftOut = fitting(connections, maxBytes)
	return report, nil
}

func (l Link) message() *agentv1.Interface {
	addresses := make([]string, len(l.Addresses))
	for i, address := range l.Addresses {
		addresses[i] = address.String()
	}
	return &agentv1.Interface{
		Name: l.Name, Up: l.Up, Addresses: addresses, BytesSent: l.BytesSent, BytesReceived: l.BytesReceived,
	}
}

// fitting returns the connections that fit into this many bytes, the most recently active first.
func fitting(connections []mptcp.Connection, bytes int) ([]*agentv1.Connection, uint32) {
	connections = slices.DeleteFunc(slices.Clone(connections), irrelevant)
	slices.SortStableFunc(connections, func(a, b mptcp.Connection) int { return cmp.Compare(silence(a), silence(b)) })
	messages := make([]*agentv1.Connection, 0, len(connections))
	for i, c := range connections {
		message := connectionMessage(c)
		const tagAndLength = 6
		if bytes -= proto.Size(message) + tagAndLength; bytes < 0 {
			return messages, uint32(len(connections) - i)
		}
		messages = append(messages, message)
	}
	return messages, 0
}

// irrelevant reports whether a connection has no established subflow outside the loopback: then there is no path to
// choose.
func irrelevant(c mptcp.Connection) bool {
	return !slices.ContainsFunc(c.Subflows, func(s mptcp.Subflow) bool {
		return s.Established && !s.Local.Addr().IsLoopback() && !s.Remote.Addr().IsLoopback()
	})
}

func silence(c mptcp.Connection) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, s := range c.Subflows {
		shortest = min(shortest, s.SinceAck, s.SinceData)
	}
	return shortest
}

func connectionMessage(c mptcp.Connection) *agentv1.Connection {
	message := &agentv1.Connection{
		Token: uint32(c.Token), BytesSent: c.BytesSent, BytesReceived: c.BytesReceived, Serves: c.Serves,
		Subflows: make([]*agentv1.Subflow, 0, len(c.Subflows)),
	}
	for _, s := range c.Subflows {
		if s.Established {
			message.Subflows = append(message.Subflows, subflowMessage(s))
		}
	}
	return message
}

func subflowMessage(s mptcp.Subflow) *agentv1.Subflow {
	return &agentv1.Subflow{
		LocalAddress: text(s.Local.Addr()), LocalPort: uint32(s.Local.Port()),
		RemoteAddress: text(s.Remote.Addr()), RemotePort: uint32(s.Remote.Port()),
		LocalId: uint32(s.LocalID), RemoteId: uint32(s.RemoteID),
		BackupByUs: s.BackupByUs, BackupByPeer: s.BackupByPeer,
		SrttUs: microseconds(s.SRTT), MinRttUs: microseconds(s.MinRTT),
		CwndSegments: s.CwndSegments, MssBytes: s.MSSBytes, InFlightSegments: s.InFlightSegments,
		DeliveryRateBps: s.DeliveryRateBPS, SegmentsSent: s.SegmentsSent, SegmentsDelivered: s.SegmentsDelivered,
		Retransmits: s.Retransmits, BytesAcked: s.BytesAcked, BytesReceived: s.BytesReceived,
		SinceAckMs: milliseconds(s.SinceAck), SinceDataMs: milliseconds(s.SinceData),
	}
}

// text returns "" for an unknown address.
func text(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	return address.String()
}

func microseconds(d time.Duration) uint32 { return clamped(d.Microseconds()) }
func milliseconds(d time.Duration) uint32 { return clamped(d.Milliseconds()) }
func clamped(n int64) uint32              { return uint32(min(max(n, 0), math.MaxUint32)) }
