// SPDX-License-Identifier: Apache-2.0

package capstest

import (
	"bufio"
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"bicast/api/agentv1"
)

const beAgent = "CAPS_TEST_ORDER" // environment variable: run as an agent with this order

// Main is TestMain for packages whose tests start agents.
func Main(m *testing.M, opener Opener) {
	if order := os.Getenv(beAgent); order != "" {
		runAgent(order, opener)
	}
	flag.Set("test.parallel", "4") // the tests wait for round trips, not for the processor
	os.Exit(m.Run())
}

// runAgent renews its order until it is killed.
func runAgent(text string, opener Opener) {
	order := &agentv1.Caps{}
	if err := protojson.Unmarshal([]byte(text), order); err != nil {
		panic(err)
	}
	executor := opener(func(work func() error) error { return work() }, slog.New(slog.DiscardHandler))
	go executor.Run(context.Background())
	for {
		if _, err := executor.Order(order); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("ordered\n")
		time.Sleep(100 * time.Millisecond)
	}
}

// Agent starts a process that holds the order.
func (w *World) Agent(order *agentv1.Caps) *exec.Cmd {
	w.T.Helper()
	text, err := protojson.Marshal(order)
	if err != nil {
		w.T.Fatal(err)
	}
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), beAgent+"="+string(text))
	agent.Stderr = testLog{w.T}
	told, err := agent.StdoutPipe()
	if err != nil {
		w.T.Fatal(err)
	}
	w.Host.Do(agent.Start)
	w.T.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	if !bufio.NewScanner(told).Scan() {
		w.T.Fatal("the agent ended before it applied its order")
	}
	return agent
}
