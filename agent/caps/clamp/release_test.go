// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"log/slog"
	"testing"

	"bicast/agent/caps"
	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
)

func TestReleaseRemovesAKilledAgentsClamp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	slow := capOf(near, far, 0, 12)
	slow.PaceBps = 30_000_000
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: capstest.Lease})
	upload := w.Upload(far, false)
	upload.AwaitWindow(12, 12)
	if gone := release(w); gone != 0 || atRoot(w) != 1 {
		t.Fatalf("%d programs are detached, expected those of a running agent to stay", gone)
	}
	agent.Process.Kill()
	agent.Wait()
	if gone := release(w); gone != 1 || atRoot(w) != 0 {
		t.Fatalf("%d programs are detached and %d are left, expected that of the killed agent to be detached", gone, atRoot(w))
	}
	if now := upload.Info().Max_pacing_rate; now != ^uint64(0) {
		t.Errorf("the pacing rate is %d bytes a second, expected the original one", now)
	}
	upload.AwaitWindow(30, 10_000) // before the lease ends
	if gone := release(w); gone != 0 {
		t.Errorf("%d programs are detached, expected none", gone)
	}
}

func TestReleaseKeepsALivingAgentsProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	upload := killed(w)
	next := unprivileged(w)
	w.Start(next)
	w.Order(next, capOf(near, far, 0, 20))
	if now := atRoot(w); now != 2 {
		t.Fatalf("%d programs at the root of cgroups, expected that of the killed agent and the next one's", now)
	}
	if gone := release(w); gone != 1 || atRoot(w) != 1 {
		t.Fatalf("%d programs are detached and %d are left, expected only that of the killed agent to be detached", gone, atRoot(w))
	}
	upload.AwaitWindow(20, 20)
	upload.StaysWithin(1, 20)
	if gone := release(w); gone != 0 || atRoot(w) != 1 {
		t.Fatalf("%d programs are detached, expected that of the running agent to stay", gone)
	}
}

// unprivileged returns an executor that cannot see leftovers, like one without CAP_SYS_ADMIN.
func unprivileged(w *capstest.World) *caps.Executor {
	return caps.NewExecutor(caps.Method{By: "clamp", Begin: func() (caps.Program, error) {
		return withClaim(func(netns uint64) (*program, error) { return start(netns, nil) })
	}}, w.Host.Try, slog.New(slog.DiscardHandler))
}

// killed returns an upload that a killed agent held at 12 segments.
func killed(w *capstest.World) *capstest.Upload {
	w.T.Helper()
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 0, 12)}, LeaseMs: 500})
	upload := w.Upload(far, false)
	upload.AwaitWindow(12, 12)
	agent.Process.Kill()
	agent.Wait()
	return upload
}

func release(w *capstest.World) (gone int) {
	w.T.Helper()
	w.Host.Do(func() (err error) {
		gone, _, err = Release()
		return err
	})
	return gone
}
