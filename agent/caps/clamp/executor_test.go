// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
	"bicast/internal/cgroupbpf"
)

const (
	near    = capstest.Near
	nearLTE = capstest.NearLTE
	far     = capstest.Far
	other   = capstest.Other
)

var (
	await = capstest.Await
	capOf = capstest.CapOf
)

func TestMain(m *testing.M) { capstest.Main(m, NewExecutor) }

func newWorld(t *testing.T) *capstest.World { return capstest.New(t, NewExecutor) }

// begun returns a running executor whose program is attached before any connection exists.
func begun(w *capstest.World) (executor *caps.Executor, end func()) {
	executor = w.Executor()
	end = w.Start(executor)
	await(w.T, func() bool { return atRoot(w) == 1 }, func() any { return atRoot(w) }, "the program")
	return executor, end
}

func TestWindowsFollowTheUpperLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor, _ := begun(w)
	older := w.Upload(far, false) // older than its cap
	older.AwaitWindow(40, 10_000)
	w.Order(executor, capOf(near, far, 0, 30))
	newer := w.Upload(far, false)
	for _, most := range []uint32{30, 120, 8, 50} {
		w.Order(executor, capOf(near, far, 5, most))
		for _, each := range []*capstest.Upload{older, newer} {
			each.AwaitWindow(most, most) // the path has room for more
			each.StaysWithin(1, most)
		}
	}
	await(t, func() bool { return executor.Report().GetHeldSockets() == 2 }, func() any { return executor.Report() }, "2 held")
	said, err := executor.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 5, 50)}, LeaseMs: capstest.Lease})
	if err != nil || !strings.Contains(said, "lower limits are not enforced") || executor.Report().GetMethod() != "clamp" {
		t.Fatalf("%q, %v and held by %s, expected a warning that lower limits are not enforced", said, err, executor.Report().GetMethod())
	}
	w.Order(executor)
	for _, each := range []*capstest.Upload{older, newer} {
		rises(each, 50, 70)
	}
	if report := executor.Report(); report.GetHeldSockets() != 0 {
		t.Fatalf("%v, expected none to be held", report)
	}
}

func TestOlderSocketsAreCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := w.Upload(far, false)
	upload.AwaitWindow(40, 10_000)
	executor, _ := begun(w)
	w.Order(executor, capOf(near, far, 0, 20))
	if watchesOlder(t) {
		upload.StaysWithin(1, 20)
		return
	}
	upload.AwaitWindow(100, 10_000)
	if now := executor.Report(); now.GetHeldSockets() != 0 {
		t.Fatalf("%v, expected none to be held", now)
	}
}

// watchesOlder reports whether the kernel can watch older sockets (Linux 6.12).
func watchesOlder(t *testing.T) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var version, patch int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &version, &patch); err != nil {
		t.Fatal(err)
	}
	return version > 6 || version == 6 && patch >= 12
}

func TestIPv6SocketsAreCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor, _ := begun(w)
	upload := w.Upload(capstest.Far6, false)
	w.Order(executor, capOf(capstest.Near6, capstest.Far6, 0, 15))
	upload.AwaitWindow(15, 15)
	upload.StaysWithin(1, 15)
}

// rises expects a window to grow above its cap without a slow start: ssthresh stays close above the window while many
// segments arrive.
func rises(u *capstest.Upload, held, until uint32) {
	u.T.Helper()
	before := u.Info()
	lost := before.Total_retrans
	await(u.T, func() bool {
		now := u.Info()
		if now.Snd_cwnd <= held {
			before = now
		}
		if now.Snd_ssthresh > 2*max(now.Snd_cwnd, held) {
			u.T.Fatalf("a threshold of %d segments with a window of %d", now.Snd_ssthresh, now.Snd_cwnd)
		}
		return now.Snd_cwnd >= until
	}, func() any { return u.Info().Snd_cwnd }, until)
	lostFew(u, lost)
	if before.Snd_cwnd > held {
		return // the window was above before
	}
	grown := until - before.Snd_cwnd
	if arrived := u.Info().Delivered - before.Delivered; arrived < 8*grown {
		u.T.Fatalf("a window has grown by %d segments while %d arrived: that is a slow start", grown, arrived)
	}
}

// lostFew allows the losses of a busy machine. An overshoot loses hundreds.
func lostFew(u *capstest.Upload, before uint32) {
	if now := u.Info().Total_retrans; now > before+20 {
		u.T.Fatalf("%d segments were sent again, expected few to be lost", now-before)
	}
}

func TestUncappedConnectionsAreUnchanged(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newWorld(t)
	executor, _ := begun(w)
	w.Order(executor, capOf(near, far, 0, 10))
	inside, beside, away := w.Upload(far, false), w.Upload(other, false), elsewhere.Upload(far, false)
	inside.StaysWithin(1, 10)
	for _, each := range []*capstest.Upload{beside, away} {
		each.AwaitWindow(100, 10_000)
		// A segment that a busy machine lost lowers the threshold.
		if now := each.Info(); now.Total_retrans == 0 && now.Snd_ssthresh < 100 {
			t.Fatalf("a threshold of %d segments, expected none that it did not come to", now.Snd_ssthresh)
		}
	}
}

func TestLossIsRepairedUnderACap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Room(30_000)
	executor, _ := begun(w)
	upload := w.Upload(far, false)
	w.Order(executor, capOf(near, far, 0, 60))
	repairs := func(more uint32, each func(now *unix.TCPInfo)) {
		for now, before := upload.Info(), upload.Info().Total_retrans; now.Total_retrans < before+more; now = upload.Info() {
			each(now)
		}
	}
	repairs(1, func(*unix.TCPInfo) {})
	low, all := 0, 0
	repairs(60, func(now *unix.TCPInfo) {
		all++
		if now.Snd_ssthresh < 60 {
			low++
		}
	})
	if low < all*9/10 {
		t.Errorf("the threshold that a loss has set stood %d times of %d, expected it to be left alone", low, all)
	}
	most := uint32(60)
	repairs(60, func(now *unix.TCPInfo) { // while the cap keeps changing
		if now.Ca_state >= inRepair && now.Snd_ssthresh >= 56 {
			t.Fatalf("a threshold of %d segments while losses are repaired, expected that to be left alone", now.Snd_ssthresh)
		}
		most ^= 60 ^ 56
		w.Order(executor, capOf(near, far, 0, most))
	})
	w.Order(executor, capOf(near, far, 0, 12))
	upload.AwaitWindow(12, 12)
	upload.StaysWithin(1, 12)
}

const inRepair = 2 // TCP_CA_CWR and the states above

func TestPaceLimitsBelowTheSmallestWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor, _ := begun(w)
	upload := w.Upload(far, false)
	before := upload.Info().Max_pacing_rate
	slow := capOf(near, far, 0, 2)
	slow.PaceBps = 4_000_000
	for _, each := range []struct {
		cap      []*agentv1.Cap
		expected uint64
	}{{[]*agentv1.Cap{slow}, 500_000}, {[]*agentv1.Cap{capOf(near, far, 0, 2)}, before}, {[]*agentv1.Cap{slow}, 500_000}, {nil, before}} {
		w.Order(executor, each.cap...)
		pace := func() any { return upload.Info().Max_pacing_rate }
		await(t, func() bool { return pace() == each.expected }, pace, each.expected)
	}
}

func TestSecondExecutorIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Executor()
	w.Start(first)
	w.Order(first, capOf(near, far, 0, 10))
	_, err := w.Executor().Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 20)}, LeaseMs: capstest.Lease})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Fatalf("%v, expected an error that names the holder", err)
	}
	if now := atRoot(w); now != 1 {
		t.Fatalf("%d programs at the root of cgroups, expected that of the first", now)
	}
}

func TestProbeSucceedsRepeatedly(t *testing.T) {
	for range 2 {
		if err := Probe(); err != nil {
			t.Fatal(err)
		}
	}
}

// atRoot counts the programs at the root cgroup that hold a world's terminal.
func atRoot(w *capstest.World) (programs int) {
	programsFor(w, func(there *cgroupbpf.Found) error {
		programs = len(there.Programs)
		return nil
	})
	return programs
}

// programsFor passes the programs at the root cgroup that hold a world's terminal to show.
func programsFor(w *capstest.World, show func(*cgroupbpf.Found) error) {
	w.T.Helper()
	w.Host.Do(func() error {
		netns, err := caps.Cookie()
		if err != nil {
			return err
		}
		root, err := openRoot()
		if err != nil {
			return err
		}
		defer root.Close()
		there, err := leftoversAt(root, netns, 0) // at a time before any lease ended
		if err != nil {
			return err
		}
		defer there.Close()
		return show(there)
	})
}
