// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"log/slog"
	"testing"

	"bicast/agent/caps"
	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
)

func TestReleaseTakesAwayWhatAKilledAgentLeftAndLetsGoWhatThatHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	slow := capOf(near, far, 0, 12)
	slow.PaceBps = 30_000_000
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: capstest.Lease})
	upload := w.Upload(far, false)
	upload.AwaitWindow(12, 12)
	if gone := release(w); gone != 0 || atRoot(w) != 1 {
		t.Fatalf("%d programs are taken away, expected those of a living agent to stay", gone)
	}
	agent.Process.Kill()
	agent.Wait()
	if gone := release(w); gone != 1 || atRoot(w) != 0 {
		t.Fatalf("%d programs are taken away and %d are left, expected that of the killed agent to go", gone, atRoot(w))
	}
	if now := upload.Info().Max_pacing_rate; now != ^uint64(0) {
		t.Errorf("%d bytes a second at most, expected what it had", now)
	}
	upload.AwaitWindow(30, 10_000) // though the lease is not over
	if gone := release(w); gone != 0 {
		t.Errorf("%d programs are taken away where nothing is left", gone)
	}
}

func TestReleaseLeavesThatOfALivingAgentBesideWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(func() { tidy(t, w) })
	upload := killed(w)
	next := powerless(w)
	w.Runs(next)
	w.Order(next, capOf(near, far, 0, 20))
	if now := atRoot(w); now != 2 {
		t.Fatalf("%d programs at the root of cgroups, expected that of the killed agent and the next one's", now)
	}
	if gone := release(w); gone != 1 || atRoot(w) != 1 {
		t.Fatalf("%d programs are taken away and %d are left, expected that of the killed agent to go alone", gone, atRoot(w))
	}
	upload.AwaitWindow(20, 20)
	upload.Stays(1, 20)
	if gone := release(w); gone != 0 || atRoot(w) != 1 {
		t.Fatalf("%d programs are taken away, expected that of the living agent to stay", gone)
	}
}

// powerless is an executor that does not see what others left, as one without CAP_SYS_ADMIN.
func powerless(w *capstest.World) *caps.Executor {
	return caps.NewExecutor(caps.Way{By: "clamp", Begin: func() (caps.Program, error) {
		return alone(func(netns uint64) (*program, error) { return succeed(netns, nil) })
	}}, w.Host.Try, slog.New(slog.DiscardHandler))
}

// killed is an upload that an agent held until it was killed, at 12 segments at most.
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
