// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"bicast/agent/session"
	"bicast/api/agentv1"
)

// A host reports loss in five of sixty reports; segments are per second.
const (
	cycle, losing = 60, 5
	segments      = 200
	segmentBytes  = 1400
)

// A host is a phone with one connection, which obeys its orders.
type host struct {
	number  int
	invited invitation

	mutex    sync.Mutex
	reports  int
	subflows [2]*agentv1.Subflow // Wi-Fi's and LTE's
}

func newHost(number int, one invitation) *host {
	h := &host{number: number, invited: one}
	for at, address := range []string{one.wifi, one.lte} {
		h.subflows[at] = &agentv1.Subflow{
			LocalAddress: address, LocalPort: 40000, RemoteAddress: "203.0.113.5", RemotePort: 443, LocalId: uint32(at),
			SrttUs: 30_000, MinRttUs: 25_000, CwndSegments: 40, MssBytes: segmentBytes, InFlightSegments: 4, SinceAckMs: 5,
		}
	}
	return h
}

func (h *host) Hello() *agentv1.Hello {
	can := func(name string) *agentv1.Capability { return &agentv1.Capability{Name: name, Available: true} }
	return &agentv1.Hello{
		Protocol: session.Protocol, Version: "crowd", Role: agentv1.Role_ROLE_TERMINAL,
		PathManager: agentv1.PathManager_PATH_MANAGER_KERNEL, Kernel: "none",
		Capabilities: []*agentv1.Capability{can("report"), can("mptcp")}, Addresses: []string{h.invited.wifi, h.invited.lte},
	}
}

func (h *host) Report() (*agentv1.Report, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.reports++
	connection := &agentv1.Connection{Token: uint32(h.number + 1)}
	for _, s := range h.subflows {
		if !s.BackupByUs {
			lost := uint64(0)
			if (h.reports+h.number)%cycle < losing {
				lost = segments / 5
			}
			s.SegmentsSent += segments
			s.Retransmits += lost
			s.SegmentsDelivered += segments - lost
			s.BytesAcked += (segments - lost) * segmentBytes
		}
		told := &agentv1.Subflow{
			LocalAddress: s.LocalAddress, LocalPort: s.LocalPort, RemoteAddress: s.RemoteAddress, RemotePort: s.RemotePort,
			LocalId: s.LocalId, BackupByUs: s.BackupByUs, SrttUs: s.SrttUs, MinRttUs: s.MinRttUs,
			CwndSegments: s.CwndSegments, MssBytes: s.MssBytes, InFlightSegments: s.InFlightSegments,
			SinceAckMs: s.SinceAckMs, SegmentsSent: s.SegmentsSent, Retransmits: s.Retransmits,
			SegmentsDelivered: s.SegmentsDelivered, BytesAcked: s.BytesAcked,
		}
		connection.Subflows = append(connection.Subflows, told)
		connection.BytesSent += s.BytesAcked
	}
	return &agentv1.Report{
		MonotonicUs: uint64(time.Now().UnixMicro()), IntervalMs: 1000,
		Connections: []*agentv1.Connection{connection}, Cost: &agentv1.Cost{CpuUs: 1, RssBytes: 1},
	}, nil
}

// Obey flags paths as preferred. Nothing stalls here: armed failovers never fire.
func (h *host) Obey(_ context.Context, directive *agentv1.Directive) *agentv1.Result {
	order := directive.GetPrefer()
	if order == nil {
		return &agentv1.Result{Done: true, Answer: "so be it"}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, s := range h.subflows {
		s.BackupByUs = false
		for _, other := range order.GetOthers() {
			s.BackupByUs = s.BackupByUs || other.GetTerminalAddresses()[0] == s.LocalAddress
		}
	}
	return &agentv1.Result{Done: true, Answer: "moved", Connections: 1}
}

func (h *host) Fired() <-chan *agentv1.FailoverFired { return nil }

func (h *host) Probed() <-chan *agentv1.ProbeReport { return nil }

func (h *host) DistancesMeasured() <-chan *agentv1.DistancesMeasured { return nil }
