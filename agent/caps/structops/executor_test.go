// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
)

func TestWindowsFollowBothLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	older := w.Upload(far, false)
	own := older.Control()
	w.Order(executor, capOf(near, far, 20, 30))
	newer := w.Upload(far, false)
	if !underCap(older) || !underCap(newer) {
		t.Fatalf("%s, %s: expected both to be held by now", older.Control(), newer.Control())
	}
	w.Start(executor)
	for _, now := range []struct{ least, most uint32 }{{20, 30}, {110, 120}, {0, 8}, {50, 50}} {
		w.Order(executor, capOf(near, far, now.least, now.most))
		for _, each := range []*capstest.Upload{older, newer} {
			each.StaysWithin(now.least, now.most)
		}
	}
	await(t, func() bool { return executor.Report().GetHeldSockets() == 2 }, func() any { return executor.Report() }, "2 held")
	if by := executor.Report().GetMethod(); by != "congestion-control" {
		t.Fatalf("held by %s", by)
	}
	w.Order(executor)
	for _, each := range []*capstest.Upload{older, newer} {
		if now := each.Control(); now != own {
			t.Fatalf("%s, expected %s to be given back", now, own)
		}
		each.AwaitWindow(55, 10_000)
	}
	if report := executor.Report(); report.GetHeldSockets() != 0 {
		t.Fatalf("%v, expected none to be held", report)
	}
}

func TestUncappedConnectionsAreUnchanged(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newWorld(t)
	executor := w.Executor()
	w.Order(executor, capOf(near, far, 5, 10))
	inside, beside, away := w.Upload(far, false), w.Upload(other, false), elsewhere.Upload(far, false)
	w.Start(executor)
	inside.StaysWithin(5, 10)
	for _, each := range []*capstest.Upload{beside, away} {
		each.AwaitWindow(100, 10_000)
		if underCap(each) {
			t.Fatalf("%s has another congestion control", each.Conn.RemoteAddr())
		}
	}
}

func TestIPv6AndMappedIPv4SocketsAreCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	older := w.Upload(far6, false)
	w.Start(executor)
	w.Order(executor, capOf(near6, far6, 5, 10), capOf(near, far, 15, 20))
	newer, both := w.Upload(far6, false), w.AcceptedUpload()
	older.StaysWithin(5, 10)
	newer.StaysWithin(5, 10)
	both.StaysWithin(15, 20)
}

func TestRunRestoresAllSocketsAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	upload := w.Upload(far, false)
	own := upload.Control()
	end := w.Start(executor)
	w.Order(executor, capOf(near, far, 0, 10))
	upload.StaysWithin(0, 10)
	end()
	if now := upload.Control(); now != own {
		t.Fatalf("%s, expected %s", now, own)
	}
	if report := executor.Report(); report != nil {
		t.Fatalf("%v, expected nothing to be ordered", report)
	}
	next := w.Executor()
	w.Start(next)
	w.Order(next, capOf(near, far, 0, 10)) // the next agent can begin
}

func TestLeaseEndRestoresAllSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	upload := w.Upload(far, false)
	own := upload.Control()
	w.Start(executor)
	if _, err := executor.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 10)}, LeaseMs: 5_000}); err != nil {
		t.Fatal(err)
	}
	upload.AwaitWindow(0, 10)
	await(t, func() bool { return upload.Control() == own }, func() any { return upload.Control() }, own)
	await(t, func() bool { return executor.Report() == nil }, func() any { return executor.Report() }, "none")
}

func TestSecondExecutorIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Executor()
	w.Start(first)
	w.Order(first, capOf(near, far, 0, 10))
	var err error
	await(t, func() bool { // a child that another test forks holds a copy of our link until it calls exec
		_, err = w.Executor().Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 20)}, LeaseMs: lease})
		return err == nil || strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid()))
	}, func() any { return err }, "expected an error that names the holder")
	if err == nil {
		t.Fatal("two agents hold the windows of one host")
	}
}

func TestPaceLimitsBelowTheSmallestWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	upload := w.Upload(far, false)
	before := upload.Info().Max_pacing_rate
	w.Start(executor)
	slow := capOf(near, far, 0, 2)
	slow.PaceBps = 4_000_000
	w.Order(executor, slow)
	paced := func(expected uint64) {
		t.Helper()
		await(t, func() bool { return upload.Info().Max_pacing_rate == expected },
			func() any { return upload.Info().Max_pacing_rate }, expected)
	}
	paced(500_000)
	w.Order(executor, capOf(near, far, 0, 2))
	paced(before)
	w.Order(executor, slow)
	paced(500_000)
	w.Order(executor)
	paced(before)
}

func TestLowerLimitHoldsOnALossyPathButNotOnADeadOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Room(30_000)
	executor := w.Executor()
	upload := w.Upload(far, false)
	w.Start(executor)
	w.Order(executor, capOf(near, far, 40, 60))
	upload.AwaitWindow(40, 60)
	lost := upload.Info().Total_retrans
	for seen, before := 0, upload.Info(); seen < 100 || before.Total_retrans < lost+100; {
		now := upload.Info()
		// The kernel reads the window before it locks the socket and the state after. They match if no packet arrived in between.
		if now.Ca_state == caOpen && now.Segs_in == before.Segs_in {
			seen++
			if !between(now.Snd_cwnd, 40, 60) {
				t.Fatalf("%d segments, expected 40 to 60", now.Snd_cwnd)
			}
		}
		before = now
	}
	w.Host.Blacken("wifi", "10.1.0.254")
	dead := func() bool {
		now := upload.Info()
		return now.Ca_state == caLoss && now.Snd_cwnd < 5 // also small during recovery
	}
	await(t, dead, func() any { return upload.Info() }, "a few in the state of loss")
	w.Host.Run("ip", "neigh", "del", "10.1.0.254", "dev", "wifi")
	upload.AwaitWindow(40, 60)
}

const (
	caOpen = 0
	caLoss = 4
)

func TestSocketsOwnCongestionControlIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor := w.Executor()
	upload := w.Upload(far, false)
	w.Start(executor)
	w.Order(executor, capOf(near, far, 0, 10))
	upload.AwaitWindow(0, 10)
	upload.Option(func(socket int) error {
		return unix.SetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION, "cubic")
	})
	await(t, func() bool { return underCap(upload) }, func() any { return upload.Control() }, "ours")
	w.Order(executor)
	if now := upload.Control(); now != "cubic" {
		t.Fatalf("%s, expected cubic", now)
	}
}
