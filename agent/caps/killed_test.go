package caps

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"bicast/api/agentv1"
)

const beAgent = "CAPS_TEST_ORDER" // to the test's own program: be an agent with this order

func TestMain(m *testing.M) {
	if order := os.Getenv(beAgent); order != "" {
		standIn(order)
	}
	os.Exit(m.Run())
}

// standIn renews its order until it is killed.
func standIn(text string) {
	order := &agentv1.Caps{}
	if err := protojson.Unmarshal([]byte(text), order); err != nil {
		panic(err)
	}
	hand := NewHand(func(work func() error) error { return work() }, slog.New(slog.DiscardHandler))
	go hand.Run(context.Background())
	for {
		if _, err := hand.Order(order); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("ordered\n")
		time.Sleep(100 * time.Millisecond)
	}
}

// agent is a process of its own that holds what is ordered.
func (w *world) agent(order *agentv1.Caps) *exec.Cmd {
	w.t.Helper()
	text, err := protojson.Marshal(order)
	if err != nil {
		w.t.Fatal(err)
	}
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), beAgent+"="+string(text))
	agent.Stderr = said{w.t}
	told, err := agent.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.host.Do(agent.Start)
	w.t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	if !bufio.NewScanner(told).Scan() {
		w.t.Fatal("the agent ended before it had held anything")
	}
	return agent
}

func TestTheLeaseEndsOnLiveSocketsWhenTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := w.upload(far, false)
	agent := w.agent(&agentv1.Caps{Caps: []*agentv1.Cap{capOf(near, far, 5, 12)}, LeaseMs: 600})
	upload.stays(5, 12) // less than where cubic's own slow start looks for its end
	if now := upload.info().Snd_ssthresh; now < 1<<30 {
		t.Fatalf("a threshold of %d segments, expected a slow start to be held", now)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	agent.Wait()
	begun := time.Now()
	upload.awaitWindow(13, 100)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("held %v after its agent was killed", took)
	}
	if now := upload.info(); now.Snd_ssthresh > 24 || !upload.held() {
		t.Fatalf("%s with a threshold of %d segments, expected ours without a slow start", upload.control(), now.Snd_ssthresh)
	}
	newer := w.upload(far, false)
	if newer.held() {
		t.Fatal("a new socket is held by nobody")
	}
	hand := w.hand()
	w.runs(hand)
	w.order(hand, capOf(near, far, 0, 12))
	upload.stays(0, 12)
	newer.stays(0, 12)
	w.order(hand)
	if now := upload.control(); now != "reno" {
		t.Fatalf("%s, expected what others have here: nobody remembers what it had", now)
	}
}

func TestAKilledAgentsSocketsAreGivenBackByTheNextThoughTheyHaveNoCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upload := w.upload(far, false)
	slow := capOf(near, far, 0, 30)
	slow.PaceBps = 8_000
	agent := w.agent(&agentv1.Caps{Caps: []*agentv1.Cap{slow}, LeaseMs: lease})
	await(t, func() bool { return upload.info().Max_pacing_rate == 1000 }, func() any { return upload.info().Max_pacing_rate }, 1000)
	agent.Process.Kill()
	agent.Wait()
	hand := w.hand()
	w.runs(hand)
	w.order(hand, capOf(near, other, 0, 12))
	if now := upload.info().Max_pacing_rate; upload.control() != "reno" || now != ^uint64(0) {
		t.Fatalf("%s at %d bytes a second at most, expected reno and no bound", upload.control(), now)
	}
}
