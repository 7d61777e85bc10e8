// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
	"bicast/internal/cgroupbpf"
	"bicast/internal/clock"
)

func TestCapsEndWithTheLeaseWhenTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	slow := capOf(near, far, 0, 12)
	slow.PaceBps = 30_000_000
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: 2_000})
	one, another := w.Upload(far, false), w.Upload(far, false)
	for _, each := range []*capstest.Upload{one, another} {
		each.AwaitWindow(12, 12)
		each.StaysWithin(1, 12)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	agent.Wait()
	for _, each := range []*capstest.Upload{one, another} {
		rises(each, 12, 60)
		if now := each.Info().Max_pacing_rate; now != ^uint64(0) {
			t.Fatalf("the pacing rate is %d bytes a second, expected the original one", now)
		}
	}
	if now := atRoot(w); now != 1 {
		t.Fatalf("%d programs at the root of cgroups, expected the killed agent's", now)
	}
	next := w.Executor()
	end := w.Start(next)
	w.Order(next, capOf(near, other, 0, 12))
	if now := atRoot(w); now != 1 {
		t.Fatalf("%d programs at the root of cgroups, expected the next agent's alone", now)
	}
	another.AwaitWindow(80, 10_000) // the lift continues: the next agent has the state
	w.Order(next, capOf(near, far, 0, 12))
	for _, each := range []*capstest.Upload{one, another} {
		each.StaysWithin(1, 12)
	}
	end()
	if now := atRoot(w); now != 0 {
		t.Fatalf("%d programs at the root of cgroups, expected none", now)
	}
}

func TestLeftoversDoNotHinderAnUnprivilegedAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	upload := killed(w)
	upload.AwaitWindow(20, 10_000)
	next := unprivileged(w)
	w.Start(next)
	w.Order(next, capOf(near, far, 0, 12))
	if now := atRoot(w); now != 2 {
		t.Fatalf("%d programs at the root of cgroups, expected that of the killed agent and the next one's", now)
	}
	upload.AwaitWindow(12, 12)
	upload.StaysWithin(1, 13) // the killed agent's program may lift it once
	upload.AwaitWindow(12, 12)
	w.Order(next)
	rises(upload, 12, 40)
}

func TestPaceOfAKilledAgentIsNotRestored(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]uint32{"another clamp": 6, "the same clamp": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			t.Cleanup(func() { tidy(t, w) })
			slow, slower := capOf(near, far, 0, 8), capOf(near, far, 0, most)
			slow.PaceBps, slower.PaceBps = 8_000_000, 4_000_000
			agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: 2_000})
			upload := w.Upload(far, false)
			pace := func() any { return upload.Info().Max_pacing_rate }
			paced := func(expected uint64) {
				t.Helper()
				await(t, func() bool { return pace() == expected }, pace, expected)
			}
			paced(1_000_000)
			agent.Process.Kill()
			agent.Wait()
			next := unprivileged(w)
			w.Start(next)
			w.Order(next, slower)
			paced(500_000)
			await(t, func() bool { return !remembers(w, upload) }, pace, "the killed agent's to let it go")
			paced(500_000)
			w.Order(next)
			paced(^uint64(0))
		})
	}
}

// remembers reports whether the oldest program at the root cgroup, a killed agent's, still has state of an upload.
func remembers(w *capstest.World, upload *capstest.Upload) (known bool) {
	w.T.Helper()
	programsFor(w, func(there *cgroupbpf.Found) (err error) {
		upload.Option(func(socket int) error {
			var holding []byte
			holding, err = there.Programs[0].Maps[holdings].LookupBytes(int32(socket))
			known = holding != nil
			return nil
		})
		return err
	})
	return known
}

func TestLeftoversOfTwoAgentsReleaseTheirSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 12)}, LeaseMs: capstest.Lease})
	upload := w.Upload(far, false)
	upload.AwaitWindow(12, 12)
	agent.Process.Kill()
	agent.Wait()
	w.Host.Do(func() error { // an agent without CAP_SYS_ADMIN that begins and is killed
		netns, err := caps.Cookie()
		if err != nil {
			return err
		}
		p, err := start(netns, nil)
		if err != nil {
			return err
		}
		root := p.root
		p.root = nil
		return errors.Join(root.Close(), p.Close())
	})
	if now := atRoot(w); now != 2 {
		t.Fatalf("%d programs at the root of cgroups, expected those of both", now)
	}
	next := w.Executor()
	w.Start(next)
	w.Order(next, capOf(near, other, 0, 12))
	if now := atRoot(w); now != 1 {
		t.Fatalf("%d programs at the root of cgroups, expected the next agent's alone", now)
	}
	upload.AwaitWindow(30, 10_000)
}

func TestLeftoverOfAnotherVersionLiftsByItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	otherVersion(w)
	upload := w.Upload(far, false)
	upload.AwaitWindow(12, 12)
	next := w.Executor()
	w.Start(next)
	w.Order(next, capOf(near, other, 0, 12))
	rises(upload, 12, 60)
}

// otherVersion attaches a program as if a killed agent of another version, with another layout of the map, had left
// it. It holds an upload at 12 segments for three seconds.
func otherVersion(w *capstest.World) {
	w.T.Helper()
	const clone = 1 << 9 // BPF_F_CLONE
	p := &program{}
	p.Tables = caps.NewTables(&p.objects.Objects)
	pair := caps.Pair{Source: netip.MustParseAddr(near).As16(), Destination: netip.MustParseAddr(far).As16()}
	w.Host.Do(func() error {
		spec, err := specification()
		if err != nil {
			return err
		}
		spec.Maps[holdings].Flags |= clone
		if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
			return err
		}
		if p.Settings.Netns, err = caps.Cookie(); err != nil {
			return err
		}
		if p.root, err = openRoot(); err != nil {
			return err
		}
		_, err = p.Replace(map[caps.Pair]caps.Bounds{pair: {Most: 12, Pace: caps.NoPace}})
		return errors.Join(err, p.Renew(3*time.Second), p.attach(p.root))
	})
	w.T.Cleanup(func() { w.Host.Do(p.Close) })
}

func TestLeftoversWithoutHeartbeatAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 12)}, LeaseMs: 500})
	agent.Process.Kill()
	agent.Wait()
	root, err := openRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	dead := func(at time.Duration) int {
		there, err := leftoversAt(root, 0, at) // 0 is no namespace
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		return len(there.Programs)
	}
	now := clock.Monotonic()
	if soon, late := dead(now), dead(now+cgroupbpf.LongDead+time.Minute); soon >= late {
		t.Errorf("%d programs are taken for dead at once and %d after long, expected that of the killed agent among these alone", soon, late)
	}
}

// tidy removes what a killed agent left.
func tidy(t *testing.T, w *capstest.World) {
	executor := w.Executor()
	end := w.Start(executor)
	w.Order(executor, capOf(near, far, 0, 1))
	end()
	if now := atRoot(w); now != 0 {
		t.Fatalf("%d programs at the root of cgroups, expected none", now)
	}
}

func TestCapsEndWithTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor, _ := begun(w)
	upload := w.Upload(far, false)
	if _, err := executor.Order(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 10)}, LeaseMs: 2_000}); err != nil {
		t.Fatal(err)
	}
	upload.AwaitWindow(10, 10)
	rises(upload, 10, 60)
	await(t, func() bool { return executor.Report() == nil }, func() any { return executor.Report() }, "none")
}

func TestRunReleasesAllSocketsAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	executor, end := begun(w)
	upload := w.Upload(far, false)
	upload.Option(func(socket int) error {
		return unix.SetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION, "cubic")
	})
	threshold := func() any { return upload.Info().Snd_ssthresh }
	await(t, func() bool { return upload.Info().Snd_ssthresh < 1<<30 }, threshold, "the end of its slow start")
	w.Order(executor, capOf(near, far, 0, 20))
	upload.AwaitWindow(20, 20)
	upload.StaysWithin(1, 20)
	lost := upload.Info().Total_retrans
	end()
	if now := atRoot(w); now != 0 || executor.Report() != nil || upload.Control() != "cubic" {
		t.Fatalf("%d programs at the root of cgroups, %v, %s: expected nothing to be left", now, executor.Report(), upload.Control())
	}
	upload.AwaitWindow(30, 10_000)
	await(t, func() bool { return upload.Info().Snd_ssthresh < 1<<30 }, threshold, "the end of its slow start, long before there is no room")
	lostFew(upload, lost)
	w.Order(w.Executor(), capOf(near, far, 0, 10)) // the next agent can begin
}
