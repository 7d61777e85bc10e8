package command_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/command"
	"bicast/agent/internal/brain"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/mptcp"
)

// With this in its environment the test's own program is bicast-agent.
const asAgent = "BICAST_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	switch verb, rest := os.Args[1], os.Args[2:]; verb {
	case "join":
		os.Exit(command.Join(rest, os.Stdout, os.Stderr))
	case "run":
		os.Exit(command.Run(rest, os.Stderr))
	case command.GuardVerb:
		os.Exit(command.Guard(rest, os.Stderr))
	}
	os.Exit(99)
}

func agent(arguments ...string) *exec.Cmd {
	process := exec.Command("/proc/self/exe", arguments...)
	process.Env = append(os.Environ(), asAgent+"=1")
	return process
}

// What a process says, shown where the test fails. A file, for a guard outlives its agent and would hold a pipe.
func diary(t *testing.T) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		file.Close()
		if said, err := os.ReadFile(file.Name()); err == nil && t.Failed() {
			t.Logf("the agent said:\n%s", said)
		}
	})
	return file
}

// A relay with a real agent, a phone with a connection to it that has a subflow on each path, and their controller.
type bench struct {
	t            *testing.T
	phone, relay *lab.Host
	near, far    *mptcp.Handle // of the phone, of the relay
	brain        *brain.Brain
	visit        *brain.Visit
	hello        *agentv1.Hello
	process      *exec.Cmd
	conn         net.Conn
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, brain: brain.New(t)}
	b.phone, b.relay = lab.Two(t)
	b.near, b.far = open(t, b.phone), open(t, b.relay)
	b.start()
	b.conn = b.phone.Dial(b.relay.Echo(lab.Service+":0"), "10.1.0.1")
	b.exchange()
	b.joinLTE()
	return b
}

func open(t *testing.T, host *lab.Host) *mptcp.Handle {
	t.Helper()
	handle, err := mptcp.Open(host.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { handle.Close() })
	return handle
}

func (b *bench) start() {
	b.t.Helper()
	b.process = agent("run", "--role", "relay", "--netns", b.relay.Path(), "--directory", b.brain.Directory("relay"))
	b.process.Stderr = diary(b.t)
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	process := b.process
	b.t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	b.visit, b.hello = b.brain.Welcomed(60000)
}

func (b *bench) exchange() {
	b.t.Helper()
	b.conn.SetDeadline(time.Now().Add(brain.Patience))
	if err := lab.Exchange(b.conn, 100_000); err != nil {
		b.t.Fatal(err)
	}
}

// The connection as one end has it; there is one.
func (b *bench) connection(handle *mptcp.Handle) mptcp.Connection {
	b.t.Helper()
	connections, err := handle.Connections()
	if err != nil || len(connections) != 1 || connections[0].Token == 0 {
		b.t.Fatalf("%v, %v, expected one MPTCP connection", connections, err)
	}
	return connections[0]
}

func (b *bench) joinLTE() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), brain.Patience)
	defer cancel()
	c := b.connection(b.near)
	if _, err := b.near.AddSubflow(ctx, c, netip.MustParseAddr("10.2.0.1"), c.Remote()); err != nil {
		b.t.Fatalf("the relay accepts no second subflow: %v", err)
	}
}

// The terminal's addresses over which the relay sends.
func (b *bench) active() string {
	b.t.Helper()
	var found []string
	for _, s := range b.connection(b.far).Subflows {
		if !s.Backup() {
			found = append(found, s.Remote.Addr().String())
		}
	}
	return strings.Join(found, " ")
}

func (b *bench) manager() string {
	b.t.Helper()
	var text []byte
	b.relay.Do(func() (err error) {
		text, err = os.ReadFile("/proc/sys/net/mptcp/pm_type")
		return err
	})
	return strings.TrimSpace(string(text))
}

// eventually asks again and again: what the kernel tells of here is no event.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(brain.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to be that %s", what)
		}
	}
}

func path(addresses ...string) *agentv1.Path { return &agentv1.Path{TerminalAddresses: addresses} }

func TestARelaysAgentMovesAConnectionByOrder(t *testing.T) {
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

func TestAReflexLeavesADeadPathByItself(t *testing.T) {
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
	b.brain.Stop() // it is for when nobody can be asked
	b.relay.Blacken("wifi", "10.1.0.1")
	b.exchange()
	if active := b.active(); active != "10.2.0.1" {
		t.Fatalf("the relay sends to %s, expected LTE alone", active)
	}
	b.brain.Start()
	b.visit, _ = b.brain.Welcomed(60000)
	for {
		if fired := b.visit.Word().GetFired(); fired != nil {
			if fired.GetName() != "phone" || fired.GetConnections() != 1 || fired.GetStalledMs() < 60 {
				t.Fatalf("%v, expected the reflex, with one connection, after 60 ms at least", fired)
			}
			return
		}
	}
}

func TestAnAgentThatEndsHandsTheNamespaceBack(t *testing.T) {
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

func TestAnAgentThatIsKilledHandsTheNamespaceBack(t *testing.T) {
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
		b.t.Fatal("nobody guards the connection that is left")
	}
	b.conn.Close()
	eventually(b.t, "the guard has gone with the last connection", func() bool { return guards(b.t, b.relay.Path()) == 0 })
}

func TestAnAgentThatIsKilledAndStartedAgainKeepsTheNamespace(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.process.Process.Kill()
		b.process.Wait()
		b.start()
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

func TestAGuardThatIsKilledIsReplaced(t *testing.T) {
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

func TestARelaysAgentNeedsNoRightButTheNetworksOwn(t *testing.T) {
	relay, _ := lab.Two(t)
	b := &bench{t: t, relay: relay, brain: brain.New(t)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As in deploy/bicast-agent.service. Its controller is out of reach, which is none of its guard's affair.
	process := exec.Command("setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs",
		program, "run", "--role", "relay", "--directory", b.brain.Directory("relay"))
	process.Env = append(os.Environ(), asAgent+"=1")
	process.Stderr = diary(t)
	relay.Do(process.Start)
	eventually(t, "the userspace path manager is set", func() bool { return b.manager() == "1" })
	process.Process.Kill()
	process.Wait()
	eventually(t, "the namespace is under the kernel's path manager", func() bool { return b.manager() == "0" })
}

func guards(t *testing.T, netns string) int { return len(guardsOf(t, netns)) }

// The guards of a namespace that live.
func guardsOf(t *testing.T, netns string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err == nil && bytes.HasSuffix(words, []byte("\x00"+command.GuardVerb+"\x00"+netns+"\x00")) {
			pid := 0
			for _, digit := range filepath.Base(filepath.Dir(file)) {
				pid = pid*10 + int(digit-'0')
			}
			found = append(found, pid)
		}
	}
	return found
}

func TestJoiningAndRunningInWords(t *testing.T) {
	b := brain.New(t)
	directory := t.TempDir()
	run := func(arguments ...string) (string, int) {
		t.Helper()
		out, err := agent(arguments...).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit == nil {
			return string(out), 0
		}
		return string(out), exit.ExitCode()
	}
	for _, wrong := range []struct {
		code  int
		words string
		argv  []string
	}{
		{1, "has not joined", []string{"run", "--directory", directory}},
		{2, "terminal, gateway or relay", []string{"run", "--role", "phone"}},
		{2, "join wants", []string{"join", b.Enrolment}},
		{2, "bicast enroll NAME", []string{"join", b.Enrolment, "--name", "phone", "--token", "half"}},
		{2, "not defined", []string{"join", "--nome", "phone"}},
		{0, "usage: bicast-agent join", []string{"join", "--help"}},
		{0, "usage: bicast-agent run", []string{"run", "--help"}},
	} {
		if said, code := run(wrong.argv...); code != wrong.code || !strings.Contains(said, wrong.words) {
			t.Fatalf("%v: exit code %d and %q, expected %d and %q in it", wrong.argv, code, said, wrong.code, wrong.words)
		}
	}
	said, code := run("join", b.Enrolment, "--name", "phone", "--token", b.Token("phone").String(), "--directory", directory)
	if code != 0 || !strings.Contains(said, "joined as phone") {
		t.Fatalf("exit code %d and %q, expected to have joined", code, said)
	}
	phone := agent("run", "--directory", directory)
	phone.Stderr = diary(t)
	if err := phone.Start(); err != nil {
		t.Fatal(err)
	}
	if _, hello := b.Welcomed(1000); hello.GetRole() != agentv1.Role_ROLE_TERMINAL {
		t.Fatalf("%v, expected a terminal", hello)
	}
	phone.Process.Signal(unix.SIGTERM)
	if err := phone.Wait(); err != nil {
		t.Fatalf("%v, expected it to end well", err)
	}
}
