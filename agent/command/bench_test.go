// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/agent/command"
	"bicast/agent/internal/controllertest"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/mptcp"
)

// With this variable in its environment, the test program runs as bicast-agent.
const asAgent = "BICAST_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	switch verb, rest := os.Args[1], os.Args[2:]; verb {
	case "join":
		os.Exit(command.Join(rest, os.Stdout, os.Stderr))
	case "run":
		os.Exit(command.Run(rest, os.Stdout, os.Stderr))
	case "caps":
		os.Exit(command.Caps(rest, os.Stdout, os.Stderr))
	case "release":
		os.Exit(command.Release(rest, os.Stdout, os.Stderr))
	case "reflect":
		os.Exit(command.Reflect(rest, os.Stdout, os.Stderr))
	case "probe":
		os.Exit(command.Probe(rest, os.Stdout, os.Stderr))
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

// outputFile returns a file for the output of a process. The test logs it on failure. A pipe would stay open, because a
// guard outlives its agent.
func outputFile(t *testing.T) *os.File {
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

// bench is a relay with a real agent, a phone with a connection of two subflows to it, and their controller.
type bench struct {
	t            *testing.T
	phone, relay *lab.Host
	near, far    *mptcp.Handle // handles of the phone and of the relay
	brain        *controllertest.Controller
	visit        *controllertest.Visit
	hello        *agentv1.Hello
	directory    string // the relay's agent's
	process      *exec.Cmd
	conn         net.Conn
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, brain: controllertest.New(t)}
	b.phone, b.relay = lab.Two(t)
	t.Cleanup(func() { // before its directory is removed
		eventually(t, "the guard is gone with its agent", func() bool { return guards(t, b.relay.Path()) == 0 })
	})
	b.near, b.far = open(t, b.phone), open(t, b.relay)
	b.directory = b.brain.Directory("relay")
	b.start("relay")
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

func (b *bench) start(role string) {
	b.t.Helper()
	b.process = agent("run", "--role", role, "--netns", b.relay.Path(), "--directory", b.directory)
	b.process.Stderr = outputFile(b.t)
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
	b.conn.SetDeadline(time.Now().Add(controllertest.Patience))
	if err := lab.Exchange(b.conn, 100_000); err != nil {
		b.t.Fatal(err)
	}
}

// The only connection, as one end sees it.
func (b *bench) connection(handle *mptcp.Handle) mptcp.Connection {
	b.t.Helper()
	connections, err := handle.Connections()
	// A refused subflow appears as a TCP connection while it closes.
	connections = slices.DeleteFunc(connections, func(c mptcp.Connection) bool { return c.Token == 0 })
	if err != nil || len(connections) != 1 {
		b.t.Fatalf("%v, %v, expected one MPTCP connection", connections, err)
	}
	return connections[0]
}

func (b *bench) joinLTE() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), controllertest.Patience)
	defer cancel()
	c := b.connection(b.near)
	if _, err := b.near.AddSubflow(ctx, c, netip.MustParseAddr("10.2.0.1"), c.Remote()); err != nil {
		b.t.Fatalf("the relay accepts no second subflow: %v", err)
	}
}

// active returns the terminal's addresses to which the relay sends.
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

// eventually polls, because the kernel announces none of this with events.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(controllertest.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to be that %s", what)
		}
	}
}

func path(addresses ...string) *agentv1.Path { return &agentv1.Path{TerminalAddresses: addresses} }

func guards(t *testing.T, netns string) int { return len(guardsOf(t, netns)) }

// The running guards of a namespace.
func guardsOf(t *testing.T, netns string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err == nil && bytes.Contains(words, []byte("\x00"+command.GuardVerb+"\x00"+netns+"\x00")) {
			pid := 0
			for _, digit := range filepath.Base(filepath.Dir(file)) {
				pid = pid*10 + int(digit-'0')
			}
			found = append(found, pid)
		}
	}
	return found
}
