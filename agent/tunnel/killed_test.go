// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

const held = "TUNNEL_TEST_ORDER" // environment variable: run as an agent with this order

// said writes to the test's log.
type said struct{ t testing.TB }

func (s said) Write(b []byte) (int, error) {
	s.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMain(m *testing.M) {
	if order := os.Getenv(held); order != "" {
		hold(order)
	}
	os.Exit(m.Run())
}

func hold(text string) {
	order := &agentv1.Tunnels{}
	if err := protojson.Unmarshal([]byte(text), order); err != nil {
		panic(err)
	}
	here := func(work func() error) error { return work() }
	executor := NewExecutor(here, here, farKeys, &fits{}, discard())
	if _, err := executor.Order(order); err != nil {
		panic(err)
	}
	executor.Run(context.Background())
}

// agent is a separate process, so that the test can kill it.
func (w *world) agent(host *lab.Host, order *agentv1.Tunnels) *exec.Cmd {
	w.t.Helper()
	text, err := protojson.Marshal(order)
	if err != nil {
		w.t.Fatal(err)
	}
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), held+"="+string(text))
	agent.Stderr = said{w.t}
	host.Do(agent.Start)
	w.t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	return agent
}

func (w *world) kill(agent *exec.Cmd) {
	w.t.Helper()
	if err := agent.Process.Signal(unix.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	agent.Wait()
}

func TestNextAgentTakesOverAKilledAgentsTunnels(t *testing.T) {
	w := newWorld(t, false)
	near, away := w.orders()
	other := proto.Clone(away.Tunnels[0]).(*agentv1.Tunnel)
	other.Name, other.Port, other.Vni, other.UdpPort = "old", "gone", testVNI+1, udpPort+1
	w.far.Run("ip", "link", "add", "ve0", "type", "veth", "peer", "name", "ve0-h")
	w.far.Run("ip", "link", "set", "ve0-h", "up")
	led := func() bool {
		return strings.Contains(w.far.Run("ip", "-brief", "link", "show", "dev", "ve0-h"), "LOWER_UP")
	}
	away.LanPorts = []string{"ve0"}
	agent := w.agent(w.far, &agentv1.Tunnels{Tunnels: append([]*agentv1.Tunnel{other}, away.Tunnels...), LanPorts: away.LanPorts})
	w.near = w.site(w.gateway, w.ports, near)
	w.await("the near end hears the other", func() bool { return w.near.says().GetReason() == "" })
	w.address()
	w.await("packets go through", func() bool { return w.ping(100) })
	w.await("the LAN is led to the bridge", led)
	w.kill(agent)
	mac := w.farMAC()
	w.away = w.site(w.far, w.far, away)
	if !led() {
		t.Fatal("the next agent moved the LAN before it knew the tunnels")
	}
	w.await("packets go through again", func() bool { return w.ping(100) })
	if now := w.farMAC(); now != mac {
		t.Fatalf("%s, expected the same device, %s", now, mac)
	}
	w.await("both are heard", w.alive)
	if says := w.away.says(); says.GetMoves() != 0 {
		t.Fatalf("%v, expected no move", says)
	}
	if err := w.far.Try(func() error { return exec.Command("ip", "link", "show", "gone").Run() }); err == nil {
		t.Fatal("a device without an order still exists")
	}
}
