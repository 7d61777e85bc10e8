// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"testing"

	"bicast/agent/caps/capstest"
	"bicast/api/agentv1"
)

func TestMain(m *testing.M) { capstest.Main(m, NewExecutor) }

func TestCapsEndWithTheLeaseWhenTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := w.Upload(far, false)
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 5, 12)}, LeaseMs: 2_000})
	upload.StaysWithin(5, 12)                                                     // below the window where cubic's HyStart begins
	if now := upload.Info(); now.Total_retrans == 0 && now.Snd_ssthresh < 1<<30 { // a stalled machine retransmits
		t.Fatalf("a threshold of %d segments, expected a slow start to be held", now.Snd_ssthresh)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	agent.Wait()
	upload.AwaitWindow(13, 100)
	if now := upload.Info(); now.Snd_ssthresh > 24 || !underCap(upload) {
		t.Fatalf("%s with a threshold of %d segments, expected ours without a slow start", upload.Control(), now.Snd_ssthresh)
	}
	newer := w.Upload(far, false)
	if underCap(newer) {
		t.Fatal("a new socket has no cap")
	}
	executor := w.Executor()
	w.Start(executor)
	w.Order(executor, capOf(near, far, 0, 12))
	upload.StaysWithin(0, 12)
	newer.StaysWithin(0, 12)
	w.Order(executor)
	if now := upload.Control(); now != "reno" {
		t.Fatalf("%s, expected the default, because the previous one is unknown", now)
	}
}

func TestNextAgentReleasesAKilledAgentsSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := w.Upload(far, false)
	slow := capOf(near, far, 0, 30)
	slow.PaceBps = 8_000
	agent := w.Agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: lease})
	await(t, func() bool { return upload.Info().Max_pacing_rate == 1000 }, func() any { return upload.Info().Max_pacing_rate }, 1000)
	agent.Process.Kill()
	agent.Wait()
	executor := w.Executor()
	w.Start(executor)
	w.Order(executor, capOf(near, other, 0, 12))
	if now := upload.Info().Max_pacing_rate; upload.Control() != "reno" || now != ^uint64(0) {
		t.Fatalf("%s at %d bytes a second at most, expected reno and no bound", upload.Control(), now)
	}
}
