// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/command"
	"bicast/agent/internal/controllertest"
	"bicast/api/agentv1"
	"bicast/internal/lab"
)

func TestARelaysAgentMovesAConnection(t *testing.T) {
	b := newBench(t)
	if b.hello.GetPathManager() != agentv1.PathManager_PATH_MANAGER_USERSPACE {
		t.Fatalf("%v, expected a relay to be under the userspace path manager when it says hello", b.hello)
	}
	b.visit.Order(&agentv1.Directive{Id: 5, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{
		Path: path("10.2.0.1"), Others: []*agentv1.Path{path("10.1.0.1")},
	}}})
	if result := b.visit.Result(); !result.GetDone() || result.GetConnections() != 1 || result.GetDirective() != 5 {
		t.Fatalf("%v, expected one connection to be moved", result)
	}
	if active := b.active(); active != "10.2.0.1" {
		t.Fatalf("the relay sends to %s, expected LTE alone", active)
	}
	b.exchange()
	b.visit.Order(&agentv1.Directive{Id: 6, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{
		Path: path("10.1.0.99"), Others: []*agentv1.Path{path("10.2.0.1")},
	}}})
	if result := b.visit.Result(); result.GetDone() || b.active() != "10.2.0.1" {
		t.Fatalf("%v, expected a refusal: the connection has no such path", result)
	}
}

func TestAnArmedFailoverLeavesADeadPath(t *testing.T) {
	b := newBench(t)
	b.visit.Order(&agentv1.Directive{Id: 1, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{
		Path: path("10.1.0.1"), Others: []*agentv1.Path{path("10.2.0.1")},
	}}})
	b.visit.Order(&agentv1.Directive{Id: 2, Order: &agentv1.Directive_Arm{Arm: &agentv1.Arm{
		Name: "phone", Watched: path("10.1.0.1"), Fallback: path("10.2.0.1"), NoProgressMs: 60, LeaseMs: 60_000,
	}}})
	for range 2 {
		if result := b.visit.Result(); !result.GetDone() {
			t.Fatalf("%v, expected it done", result)
		}
	}
	b.brain.Stop() // the next failure happens without a controller
	b.relay.Blacken("wifi", "10.1.0.1")
	b.exchange()
	if active := b.active(); active != "10.2.0.1" {
		t.Fatalf("the relay sends to %s, expected LTE alone", active)
	}
	b.brain.Start()
	b.visit, _ = b.brain.Welcomed(60000)
	for {
		if fired := b.visit.Message().GetFired(); fired != nil {
			if fired.GetName() != "phone" || fired.GetConnections() != 1 || fired.GetStalledMs() < 60 {
				t.Fatalf("%v, expected the reflex, with one connection, after 60 ms at least", fired)
			}
			return
		}
	}
}

func TestAnEndingAgentRestoresThePathManager(t *testing.T) {
	b := newBench(t)
	if b.manager() != "1" {
		t.Fatal("the userspace path manager is not set")
	}
	if err := b.process.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.process.Wait(); err != nil {
		t.Fatalf("%v, expected it to end well", err)
	}
	if b.manager() != "0" {
		t.Fatal("the namespace is not under the kernel's path manager again")
	}
	b.expectJoinsUntilTheLastConnectionEnds()
}

func TestThePathManagerIsRestoredAfterTheAgentIsKilled(t *testing.T) {
	b := newBench(t)
	if err := b.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is under the kernel's path manager", func() bool { return b.manager() == "0" })
	b.expectJoinsUntilTheLastConnectionEnds()
}

func (b *bench) expectJoinsUntilTheLastConnectionEnds() {
	b.t.Helper()
	c := b.connection(b.near)
	if _, err := b.near.RemoveSubflow(c, c.Subflows[1]); err != nil {
		b.t.Fatal(err)
	}
	b.joinLTE()
	if guards(b.t, b.relay.Path()) != 1 {
		b.t.Fatal("the remaining connection has no guard")
	}
	b.conn.Close()
	eventually(b.t, "the guard ended with the last connection", func() bool { return guards(b.t, b.relay.Path()) == 0 })
}

func TestARestartedAgentKeepsThePathManager(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.process.Process.Kill()
		b.process.Wait()
		b.start("relay")
		if b.hello.GetPathManager() != agentv1.PathManager_PATH_MANAGER_USERSPACE {
			t.Fatalf("%v, expected the userspace path manager again", b.hello)
		}
	}
	b.joinAgain()
}

func (b *bench) joinAgain() {
	b.t.Helper()
	c := b.connection(b.near)
	if _, err := b.near.RemoveSubflow(c, c.Subflows[1]); err != nil {
		b.t.Fatal(err)
	}
	b.joinLTE()
}

func TestAKilledGuardIsReplaced(t *testing.T) {
	b := newBench(t)
	for _, pid := range guardsOf(t, b.relay.Path()) {
		unix.Kill(pid, unix.SIGKILL)
	}
	eventually(t, "there is a guard again", func() bool { return guards(t, b.relay.Path()) == 1 && b.manager() == "1" })
	eventually(t, "joins are accepted again", func() bool {
		c := b.connection(b.near)
		if len(c.Subflows) > 1 {
			b.near.RemoveSubflow(c, c.Subflows[1])
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := b.near.AddSubflow(ctx, c, netip.MustParseAddr("10.2.0.1"), c.Remote())
		return err == nil
	})
}

func TestGuardRestoresIfItsAgentIsKilledDuringTheStart(t *testing.T) {
	relay, _ := lab.Two(t)
	b := &bench{t: t, relay: relay}
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reads.Close() // as if the agent ended before its guard reports
	guard := agent(command.GuardVerb, relay.Path(), t.TempDir())
	guard.Stdout, guard.Stderr = writes, outputFile(t)
	if err := guard.Run(); err != nil {
		t.Errorf("%v, expected the guard to end", err)
	}
	if b.manager() != "0" {
		t.Fatal("the userspace path manager stays set without a guard")
	}
}

func TestALocalUserCannotBlockAGuard(t *testing.T) {
	relay := lab.One(t)
	relay.Squat([]string{"bicast-agent path manager"}, nil)
	guard := agent(command.GuardVerb, relay.Path(), t.TempDir())
	guard.Stderr = outputFile(t)
	input, err := guard.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := guard.StdoutPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "holding\n" {
		t.Errorf("the guard says %q (%v), expected that it holds the path manager", said, err)
	}
	input.Close()
	if err := guard.Wait(); err != nil {
		t.Error(err)
	}
}

// killBoth kills agent and guard together, as the OOM killer may: the userspace path manager stays set.
func (b *bench) killBoth() {
	b.t.Helper()
	unix.Kill(b.process.Process.Pid, unix.SIGSTOP) // so that it replaces no guard
	for _, pid := range guardsOf(b.t, b.relay.Path()) {
		unix.Kill(pid, unix.SIGKILL)
	}
	b.process.Process.Kill()
	b.process.Wait()
	eventually(b.t, "no guard is left", func() bool { return guards(b.t, b.relay.Path()) == 0 })
	if b.manager() != "1" {
		b.t.Fatal("the path manager was restored, expected no process to do that")
	}
}

func TestNextAgentRestoresAfterAgentAndGuardWereKilled(t *testing.T) {
	b := newBench(t)
	b.killBoth()
	b.start("gateway")
	if b.hello.GetPathManager() != agentv1.PathManager_PATH_MANAGER_KERNEL || b.manager() != "0" {
		t.Fatalf("%v, expected the kernel's path manager", b.hello)
	}
	b.expectJoinsUntilTheLastConnectionEnds()
}

func TestNextRelayTakesOverAfterAgentAndGuardWereKilled(t *testing.T) {
	b := newBench(t)
	b.killBoth()
	b.start("relay")
	b.joinAgain()
	b.process.Process.Kill()
	eventually(t, "the namespace is under the kernel's path manager", func() bool { return b.manager() == "0" })
}

func (b *bench) release() string {
	b.t.Helper()
	said, err := agent("release", "--netns", b.relay.Path(), "--directory", b.directory).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v: %s", err, said)
	}
	return string(said)
}

func TestReleaseRestoresOnlyAfterBothWereKilled(t *testing.T) {
	b := newBench(t)
	if said := b.release(); said != "" || b.manager() != "1" {
		t.Fatalf("said %q, expected no change while an agent runs", said)
	}
	b.killBoth()
	if said := b.release(); !strings.Contains(said, "was killed") || b.manager() != "0" {
		t.Fatalf("said %q, expected the path manager to be restored", said)
	}
	b.expectJoinsUntilTheLastConnectionEnds()
	b.relay.Sysctl("mptcp/pm_type", "1") // by another program
	if said := b.release(); said != "" || b.manager() != "1" {
		t.Fatalf("said %q, expected what is not ours to stay", said)
	}
}

func TestAgentWithoutGuardRestoresThePathManager(t *testing.T) {
	b := newBench(t)
	unix.Kill(b.process.Process.Pid, unix.SIGSTOP) // so that it replaces no guard before it is told to end
	for _, pid := range guardsOf(t, b.relay.Path()) {
		unix.Kill(pid, unix.SIGKILL)
	}
	eventually(t, "its guard is gone", func() bool { return guards(t, b.relay.Path()) == 0 })
	unix.Kill(b.process.Process.Pid, unix.SIGTERM)
	unix.Kill(b.process.Process.Pid, unix.SIGCONT)
	if err := b.process.Wait(); err != nil || b.manager() != "0" {
		t.Fatalf("%v, and path manager %s, expected the kernel's", err, b.manager())
	}
}

func TestARelaysAgentNeedsOnlyCAPNETADMIN(t *testing.T) {
	relay, _ := lab.Two(t)
	b := &bench{t: t, relay: relay, brain: controllertest.New(t)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As in deploy/bicast-agent@.service. The guard works without a reachable controller.
	process := exec.Command("setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs",
		program, "run", "--role", "relay", "--directory", b.brain.Directory("relay"))
	process.Env = append(os.Environ(), asAgent+"=1")
	process.Stderr = outputFile(t)
	relay.Do(process.Start)
	eventually(t, "the userspace path manager is set", func() bool { return b.manager() == "1" })
	process.Process.Kill()
	process.Wait()
	eventually(t, "the namespace is under the kernel's path manager", func() bool { return b.manager() == "0" })
}
