// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"bicast/agent/mptcpctl"
	"bicast/api/agentv1"
	"bicast/mptcp"
)

const (
	wifi, lte = "10.0.1.7", "10.0.2.7"
	stallMS   = 100
	leaseMS   = 10_000
)

// bench is a host whose clocks and kernel the test controls.
type bench struct {
	*Failovers
	t           testing.TB
	monotonic   time.Duration
	boot        time.Duration
	subflows    []mptcp.Subflow
	preferences []mptcpctl.Preference
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, monotonic: time.Hour, boot: 2 * time.Hour}
	look := func() ([]mptcp.Connection, error) {
		return []mptcp.Connection{{Token: 1, Subflows: b.subflows}}, nil
	}
	prefer := func(_ context.Context, preference mptcpctl.Preference) (mptcpctl.Outcome, error) {
		b.preferences = append(b.preferences, preference)
		return mptcpctl.Outcome{Connections: 1, Answer: "moved"}, nil
	}
	b.Failovers = New(agentv1.Role_ROLE_TERMINAL, look, prefer, slog.New(slog.DiscardHandler))
	b.clocks = clocks{func() time.Duration { return b.monotonic }, func() time.Duration { return b.boot }}
	return b
}

func (b *bench) arm(name string) {
	b.t.Helper()
	if _, err := b.Arm(armed(name)); err != nil {
		b.t.Fatal(err)
	}
}

func armed(name string) *agentv1.Arm {
	return &agentv1.Arm{
		Name: name, Watched: &agentv1.Path{TerminalAddresses: []string{wifi}},
		Fallback:     &agentv1.Path{TerminalAddresses: []string{lte}},
		NoProgressMs: stallMS, LeaseMs: leaseMS,
	}
}

// waiting returns a subflow with data in flight and this many delivered segments.
func waiting(cookie uint64, local string, delivered uint64) mptcp.Subflow {
	return mptcp.Subflow{
		Local: netip.AddrPortFrom(netip.MustParseAddr(local), 40000), Cookie: cookie,
		SegmentsDelivered: delivered, UnackedSegments: 3,
	}
}

// pass lets time pass, with looks at the requested times.
func (b *bench) pass(d time.Duration) {
	for d > 0 {
		step := b.step(context.Background())
		if step == 0 || step > d {
			step = d
		}
		b.monotonic, b.boot, d = b.monotonic+step, b.boot+step, d-step
	}
	b.step(context.Background())
}

func (b *bench) expectFired(n int) {
	b.t.Helper()
	if len(b.preferences) != n || len(b.Fired()) != n {
		b.t.Fatalf("%d failovers fired and %d were reported, expected %d", len(b.preferences), len(b.Fired()), n)
	}
}

func TestFailoverFiresOnceOnADeadPath(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7), waiting(2, lte, 0)}
	b.arm("wifi")
	b.pass((stallMS - 1) * time.Millisecond)
	b.expectFired(0)
	b.pass(minWait)
	b.expectFired(1)
	preference := b.preferences[0]
	if preference.Path.String() != lte || preference.Others.String() != wifi || !preference.Hard {
		t.Fatalf("%+v, expected to leave %s for %s, hard", preference, wifi, lte)
	}
	fired := <-b.Fired()
	if fired.GetName() != "wifi" || fired.GetStalledMs() < stallMS || fired.GetConnections() != 1 {
		t.Fatalf("%v, expected wifi after %d ms at least", fired, stallMS)
	}
	b.preferences = nil
	b.pass(time.Second)
	b.expectFired(0)
}

func TestFailoverDiscountsStallsOfTheHost(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	b.arm("wifi")
	b.pass(stallMS / 2 * time.Millisecond)
	b.monotonic, b.boot = b.monotonic+time.Second, b.boot+time.Second
	b.pass((stallMS/4 - 5) * time.Millisecond) // the delayed look was due within a quarter of the stall time
	b.expectFired(0)
	b.pass(stallMS / 2 * time.Millisecond)
	b.expectFired(1)
}

func TestFailoverFiresSoonerWithManyInFlight(t *testing.T) {
	for inFlight, after := range map[uint32]time.Duration{manySegments: 60, manySegments - 1: stallMS} {
		b := newBench(t)
		stalled := waiting(1, wifi, 7)
		stalled.UnackedSegments = inFlight
		b.subflows = []mptcp.Subflow{stalled}
		order := armed("wifi")
		order.NoProgressManyMs = 60
		if _, err := b.Arm(order); err != nil {
			t.Fatal(err)
		}
		b.pass((after - 1) * time.Millisecond)
		b.expectFired(0)
		b.pass(2 * time.Millisecond)
		b.expectFired(1)
	}
}

func TestFailoverWaitsForTheRetransmissionTimeout(t *testing.T) {
	for _, inFlight := range []uint32{1, manySegments} {
		b := newBench(t)
		stalled := waiting(1, wifi, 7)
		stalled.UnackedSegments, stalled.SRTT, stalled.RTTVar = inFlight, 2*stallMS*time.Millisecond, stallMS*time.Millisecond/4
		b.subflows = []mptcp.Subflow{stalled}
		b.arm("wifi")
		b.pass((3*stallMS - 1) * time.Millisecond)
		b.expectFired(0)
		b.pass(2 * time.Millisecond)
		b.expectFired(1)
	}
}

func TestStallBeginsWithTheLastAcknowledgement(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	b.arm("wifi")
	b.step(context.Background())
	const unseen = 15
	b.monotonic, b.boot = b.monotonic+40*time.Millisecond, b.boot+40*time.Millisecond
	b.subflows[0].SegmentsDelivered, b.subflows[0].SinceAck = 8, unseen*time.Millisecond
	b.step(context.Background())
	b.pass((stallMS - unseen - 1) * time.Millisecond)
	b.expectFired(0)
	b.pass(2 * time.Millisecond)
	b.expectFired(1)
}

func TestFailoverIgnoresAPathThatDelivers(t *testing.T) {
	b := newBench(t)
	b.arm("wifi")
	for delivered := range uint64(50) {
		b.subflows = []mptcp.Subflow{waiting(1, wifi, delivered)}
		b.pass((stallMS - 20) * time.Millisecond)
	}
	b.expectFired(0)
}

func TestFailoverIgnoresAnIdlePath(t *testing.T) {
	b := newBench(t)
	idle := waiting(1, wifi, 7)
	idle.UnackedSegments = 0
	b.subflows = []mptcp.Subflow{idle}
	b.arm("wifi")
	b.pass(5 * time.Second)
	b.expectFired(0)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)} // new data after an hour has not waited for an hour
	b.pass((stallMS / 2) * time.Millisecond)
	b.expectFired(0)
	b.pass(stallMS * time.Millisecond)
	b.expectFired(1)
}

func TestFailoverIgnoresASingleDeadPeer(t *testing.T) {
	b := newBench(t)
	b.arm("wifi")
	for delivered := range uint64(20) {
		b.subflows = []mptcp.Subflow{waiting(1, wifi, 7), waiting(2, wifi, delivered)}
		b.pass(stallMS / 2 * time.Millisecond)
	}
	b.expectFired(0)
}

func TestFailoverIgnoresOtherPaths(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, lte, 7)}
	b.arm("wifi")
	b.pass(time.Second)
	b.expectFired(0)
}

func TestLeaseEndsDuringSuspend(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	b.arm("wifi")
	b.step(context.Background())
	b.boot += leaseMS * time.Millisecond // while CLOCK_MONOTONIC stops
	if pause := b.step(context.Background()); pause != 0 {
		t.Fatalf("looks again in %v, expected nothing to be armed", pause)
	}
	b.pass(time.Second)
	b.expectFired(0)
}

func TestSuspendIsNoStall(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	b.arm("wifi")
	b.pass(stallMS / 2 * time.Millisecond)
	b.boot += time.Second
	b.step(context.Background())
	b.expectFired(0)
}

func TestDisarmForgetsTheStall(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	b.arm("wifi")
	b.pass(stallMS / 2 * time.Millisecond)
	if said := b.Disarm("wifi"); said != "disarmed" {
		t.Fatalf("said %q, expected disarmed", said)
	}
	if said := b.Disarm("wifi"); said != "it was not armed" {
		t.Fatalf("said %q, expected that it was not armed", said)
	}
	b.pass(time.Second)
	b.expectFired(0)
	b.arm("wifi") // without history
	b.pass(stallMS * 3 / 4 * time.Millisecond)
	b.expectFired(0)
	b.pass(stallMS * time.Millisecond)
	b.expectFired(1)
}

func TestRenewalKeepsAStall(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7), waiting(2, lte, 0)}
	b.arm("wifi")
	b.pass(stallMS / 2 * time.Millisecond)
	b.arm("wifi")
	b.pass((stallMS/2 + 1) * time.Millisecond)
	b.expectFired(1)
}

func TestFiredDropsTheOldestWhenNobodyReads(t *testing.T) {
	b := newBench(t)
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	for i := range maxUnreported + 3 {
		b.arm(fmt.Sprint(i))
		b.pass(2 * stallMS * time.Millisecond)
	}
	if first := <-b.Fired(); first.GetName() != "3" {
		t.Fatalf("the first reported failover is %s, expected 3", first.GetName())
	}
}

func TestArmIsLimited(t *testing.T) {
	b := newBench(t)
	for i := range maxArmed {
		b.arm(fmt.Sprint(i))
	}
	b.arm("0") // replaces the first
	if _, err := b.Arm(armed("one more")); err == nil {
		t.Fatal("the agent accepts more armed failovers than its limit")
	}
}

func TestArmRefusesInvalidOrders(t *testing.T) {
	b := newBench(t)
	for name, bend := range map[string]func(*agentv1.Arm){
		"no name":        func(a *agentv1.Arm) { a.Name = "" },
		"nothing":        func(a *agentv1.Arm) { a.Watched = nil },
		"no fallback":    func(a *agentv1.Arm) { a.Fallback = nil },
		"to itself":      func(a *agentv1.Arm) { a.Fallback = a.Watched },
		"no stall":       func(a *agentv1.Arm) { a.NoProgressMs = 0 },
		"a long stall":   func(a *agentv1.Arm) { a.NoProgressMs = 1<<32 - 1 },
		"more for many":  func(a *agentv1.Arm) { a.NoProgressManyMs = stallMS + 1 },
		"none for many":  func(a *agentv1.Arm) { a.NoProgressManyMs = 1 },
		"no lease":       func(a *agentv1.Arm) { a.LeaseMs = 0 },
		"an endless one": func(a *agentv1.Arm) { a.LeaseMs = 1<<32 - 1 },
	} {
		order := armed("wifi")
		bend(order)
		if _, err := b.Arm(order); err == nil {
			t.Errorf("%s: nothing was refused", name)
		}
	}
	if pause := b.step(context.Background()); pause != 0 {
		t.Fatal("a refused failover is armed")
	}
}

func TestStepReadsNothingWhileNothingIsArmed(t *testing.T) {
	b := newBench(t)
	b.look = func() ([]mptcp.Connection, error) {
		t.Fatal("the kernel is read with nothing armed")
		return nil, nil
	}
	if pause := b.step(context.Background()); pause != 0 {
		t.Fatalf("looks again in %v, expected never", pause)
	}
}

func TestRunFires(t *testing.T) {
	b := newBench(t)
	b.clocks = New(0, nil, nil, nil).clocks
	b.subflows = []mptcp.Subflow{waiting(1, wifi, 7)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	b.arm("wifi")
	select {
	case <-b.Fired():
	case <-time.After(time.Minute):
		t.Fatal("it did not fire")
	}
	cancel()
	<-ended
}
