// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"net"
	"testing"
	"time"

	"bicast/api/agentv1"
)

const (
	rate    = "40mbit"
	packet  = 1514
	lasting = 10 * time.Second
)

// outgrows reports whether the queue exceeds a cap.
func (h *house) outgrows(segments int) bool {
	h.t.Helper()
	return h.waiting(h.gateway, "wan") > (segments*3/2+10)*packet
}

// atMost expects the queue to stay within a cap for a while, once it is below it and the sender has received the
// window: a short queue may just mean a stalled machine.
func (h *house) atMost(segments int, senders ...net.Conn) {
	h.t.Helper()
	for _, sender := range senders {
		h.await("the sender knows its window", func() bool { return int(h.info(sender).Snd_wnd) <= segments*packet })
	}
	h.await("the queue is as short as the cap has it", func() bool { return h.waiting(h.gateway, "wan") <= segments*packet })
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		if bytes := h.waiting(h.gateway, "wan"); bytes > segments*packet {
			h.t.Fatalf("%d bytes wait, expected %d segments at most", bytes, segments)
		}
	}
}

// lostLittle fails if the sender retransmitted more than 2 % of the segments. On a busy machine loss probes are
// frequent.
func (h *house) lostLittle(conn net.Conn) {
	h.t.Helper()
	if info := h.info(conn); info.Total_retrans > info.Data_segs_out/50 {
		h.t.Fatalf("%d segments of %d were sent twice", info.Total_retrans, info.Data_segs_out)
	}
}

func (h *house) moves(since uint64) uint64 {
	h.t.Helper()
	var bytes uint64
	h.await("bytes are acknowledged", func() bool {
		bytes = 0
		for _, each := range h.executor.Report().GetPassing() {
			bytes += each.GetBytesSent()
		}
		return bytes >= since+200_000
	})
	return bytes
}

func TestUploadFollowsItsCap(t *testing.T) {
	for name, c := range map[string]struct{ at, port string }{"IPv4": {service, "on"}, "IPv6": {service6, "on"}, "IPv4, sums made by no hardware": {service, "off"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follows(t, c.at, c.port)
		})
	}
}

func TestTimedCappedUploadLosesLittle(t *testing.T) {
	h, conn := follows(t, service, "on")
	h.lostLittle(conn)
}

func TestTimedUploadLosesLittleWhenTheLeaseEnds(t *testing.T) {
	h, conn := outlastsItsLease(t)
	h.lostLittle(conn)
}

// follows changes the cap of a live upload and then lifts it.
func follows(t *testing.T, at, checksums string) (*house, net.Conn) {
	h := newHouse(t)
	h.gateway.Run("ethtool", "-K", "wifi", "tx", checksums, "rx", checksums) // with offload, checksums are computed after the program, or not verified by the phone
	narrow(h.gateway, "wan", rate)
	h.order(capped(20, lasting))
	conn := h.upload(h.sink(at, false), false)
	bytes := h.moves(0)
	h.atMost(21, conn)
	if report := h.executor.Report(); report.HeldSockets != 1 || report.Method != "window" || len(report.Missing) != 0 {
		t.Fatalf("%v, expected one connection to be held", report)
	}
	h.order(capped(8, lasting))
	h.atMost(9, conn)
	h.moves(bytes)
	h.order(capped(30, lasting))
	h.await("more is on its way", func() bool { return h.waiting(h.gateway, "wan") > 15*packet })
	h.order(&agentv1.Caps{})
	if h.executor.Report() != nil {
		t.Fatal("expected no report where nothing is ordered")
	}
	h.await("nothing holds it", func() bool { return h.outgrows(30) })
	return h, conn
}

func TestCapsEndWithTheLease(t *testing.T) {
	t.Parallel()
	h, _ := outlastsItsLease(t)
	if held := h.executor.Report().GetHeldSockets(); held != 0 {
		t.Fatalf("%d held, expected none", held)
	}
}

// outlastsItsLease runs an upload until its cap has ended.
func outlastsItsLease(t *testing.T) (*house, net.Conn) {
	h := newHouse(t)
	narrow(h.gateway, "wan", rate)
	h.order(capped(8, lasting))
	conn := h.upload(h.sink(service, false), false)
	h.moves(0)
	h.atMost(9, conn)
	h.order(capped(8, 500*time.Millisecond))
	h.await("nothing holds it", func() bool { return h.outgrows(8) })
	return h, conn
}

func TestOlderConnectionIsReportedButNotCapped(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	narrow(h.gateway, "wan", rate)
	h.upload(h.sink(service, false), false)
	h.await("it fills the queue", func() bool { return h.outgrows(8) })
	h.order(capped(8, lasting))
	h.moves(0)
	h.await("it still fills the queue", func() bool { return h.outgrows(8) })
	report := h.executor.Report()
	if report.HeldSockets != 0 || len(report.Passing) != 1 || report.Passing[0].HasScale {
		t.Fatalf("%d bytes wait, %v, expected it to be left alone", h.waiting(h.gateway, "wan"), report)
	}
}

func TestSubflowsAreCappedTogether(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	narrow(h.gateway, "wan", rate)
	h.phone.Run("ip", "mptcp", "limits", "set", "subflows", "1")
	h.server.Run("ip", "mptcp", "limits", "set", "subflows", "1")
	h.phone.Run("ip", "mptcp", "endpoint", "add", phoneLTE, "dev", "lte", "subflow")
	h.order(capped(30, lasting))
	h.upload(h.sink(service, true), true)
	h.await("both subflows carry", func() bool {
		passing := h.executor.Report().GetPassing()
		return len(passing) == 2 && passing[0].BytesSent > 100_000 && passing[1].BytesSent > 100_000
	})
	passing := h.executor.Report().Passing
	if passing[0].Joined == passing[1].Joined {
		t.Fatalf("%v, expected one of them to have joined", passing)
	}
	h.atMost(33)
}

// The sender measures the whole round trip. The gateway adds two halves, with a queue on either side.
func TestRoundTripMatchesTheSender(t *testing.T) {
	agrees(t, func(t *testing.T, said *agentv1.Passing) {
		if said.MinRttUs == 0 || said.MinRttUs >= said.SrttUs {
			t.Fatalf("%v, expected a least round trip below the queue's", said)
		}
	})
}

func TestTimedFirstRoundTripIsWithin10ms(t *testing.T) {
	agrees(t, func(t *testing.T, said *agentv1.Passing) {
		if said.MinRttUs > 10_000 {
			t.Fatalf("%v, expected a round trip of a millisecond or so at its beginning", said)
		}
	})
}

// agrees waits until the executor and the sender report the same round trip, then calls judge.
func agrees(t *testing.T, judge func(*testing.T, *agentv1.Passing)) {
	for name, narrows := range map[string]func(*house){
		"a queue behind": func(h *house) { narrow(h.gateway, "wan", rate) }, "a queue before": func(h *house) { narrow(h.air(), "above", rate) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			narrows(h)
			h.order(capped(100, lasting)) // 30 ms at this rate
			conn := h.upload(h.sink(service, false), false)
			h.await("the queue stands", func() bool { return h.info(conn).Rtt > 20_000 })
			var said *agentv1.Passing
			h.await("both say the same", func() bool {
				said = h.executor.Report().GetPassing()[0]
				sender := h.info(conn).Rtt
				return said.SrttUs > sender-sender/10 && said.SrttUs < sender+sender/10
			})
			judge(t, said)
			t.Logf("%v; the sender says %d", said, h.info(conn).Rtt)
		})
	}
}
