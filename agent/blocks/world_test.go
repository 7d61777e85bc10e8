// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

// Environment variables: run as an agent with this order, socket and cgroup, or as an application that makes connections.
const (
	asAgent       = "BLOCKS_TEST_ORDER"
	asApplication = "BLOCKS_TEST_APPLICATION"
	soon          = time.Minute // tolerates a stalled machine
)

func here(work func() error) error { return work() }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMain(m *testing.M) {
	if order := os.Getenv(asAgent); order != "" {
		beAgent(order, os.Args[1], os.Args[2])
	}
	if os.Getenv(asApplication) != "" {
		beApplication(os.NewFile(3, "line"))
	}
	os.Exit(m.Run())
}

func beAgent(text, socket, cgroup string) {
	order := &agentv1.Caps{}
	if err := protojson.Unmarshal([]byte(text), order); err != nil {
		panic(err)
	}
	executor := NewExecutor(socket, here, slog.Default())
	executor.Govern(cgroup)
	if err := executor.Order(order); err != nil {
		panic(err)
	}
	executor.Run(context.Background())
}

// beApplication opens connections in its own cgroup and passes them to the test.
func beApplication(line *os.File) {
	address := make([]byte, 64)
	for {
		count, err := line.Read(address)
		if err != nil || count == 0 {
			os.Exit(0) // the test has ended
		}
		conn, err := net.Dial("tcp", string(address[:count]))
		if err != nil {
			panic(err)
		}
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			panic(err)
		}
		if err := unix.Sendmsg(int(line.Fd()), []byte{1}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
			panic(err)
		}
		file.Close()
		conn.Close()
	}
}

// serviceRights are the agent's service's (deploy/bicast-agent-terminal.conf): it cannot see leftovers.
var serviceRights = []string{"setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon", "--inh-caps=-all", "--no-new-privs"}

// agent starts an agent in its own process. `with` is a command prefix.
func agent(t testing.TB, host *lab.Host, socket, cgroup string, order *agentv1.Caps, with ...string) *exec.Cmd {
	t.Helper()
	text, err := protojson.Marshal(order)
	must(t, err)
	program, err := os.Executable()
	must(t, err)
	words := append(with, program, socket, cgroup)
	agent := exec.Command(words[0], words[1:]...)
	agent.Env = append(os.Environ(), asAgent+"="+string(text))
	agent.Stderr = os.Stderr
	host.Do(agent.Start)
	t.Cleanup(func() { kill(agent) })
	return agent
}

func kill(agent *exec.Cmd) {
	agent.Process.Kill()
	agent.Wait()
}

// application runs in a cgroup and in a host's network namespace.
type application struct {
	t    testing.TB
	line *net.UnixConn
}

func newApplication(t testing.TB, host *lab.Host, cgroup string) *application {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(ends[0]), "line"), os.NewFile(uintptr(ends[1]), "line")
	defer ours.Close()
	defer theirs.Close()
	directory, err := os.Open(cgroup)
	must(t, err)
	defer directory.Close()
	process := exec.Command("/proc/self/exe")
	process.Env = append(os.Environ(), asApplication+"=1")
	process.Stderr = os.Stderr
	process.ExtraFiles = []*os.File{theirs}
	process.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
	host.Do(process.Start)
	t.Cleanup(func() { kill(process) })
	line, err := net.FileConn(ours)
	must(t, err)
	t.Cleanup(func() { line.Close() })
	return &application{t, line.(*net.UnixConn)}
}

// calls opens a connection from the application.
func (a *application) calls(to string) *net.TCPConn {
	a.t.Helper()
	_, err := a.line.Write([]byte(to))
	must(a.t, err)
	must(a.t, a.line.SetReadDeadline(time.Now().Add(soon)))
	rights := make([]byte, unix.CmsgSpace(4))
	_, count, _, _, err := a.line.ReadMsgUnix(make([]byte, 1), rights)
	must(a.t, err)
	messages, err := unix.ParseSocketControlMessage(rights[:count])
	must(a.t, err)
	files, err := unix.ParseUnixRights(&messages[0])
	must(a.t, err)
	file := os.NewFile(uintptr(files[0]), "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	must(a.t, err)
	a.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// running runs the executor until the test ends or stop is called.
func running(t testing.TB, executor *Executor) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		executor.Run(ctx)
	}()
	stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// governing runs an executor for a cgroup until the test ends or stop is called.
func governing(t testing.TB, host *lab.Host, socket, cgroup string) (executor *Executor, stop func()) {
	executor = NewExecutor(socket, host.Try, discard())
	executor.Govern(cgroup)
	return executor, running(t, executor)
}

// held is an application's connection with blocks, and the agent's process that applies them.
type held struct {
	client, server *lab.Host
	cgroup, socket string
	application    *application
	to             string
	conn           *net.TCPConn
	agent          *exec.Cmd
}

func newHeld(t testing.TB, leaseMs uint32) *held {
	t.Helper()
	h := &held{cgroup: lab.Cgroup(t), socket: aSocket(t)}
	h.client, h.server = lab.Two(t)
	h.application, h.to = newApplication(t, h.client, h.cgroup), h.server.TCPEcho("10.1.0.2:7").String()
	h.conn = h.application.calls(h.to)
	h.agent = agent(t, h.client, h.socket, h.cgroup, blocksOrder(block, leaseMs))
	awaitMark(t, "an older socket", h.conn, block)
	return h
}

func aSocket(t testing.TB) string { return filepath.Join(t.TempDir(), "sharers") }

// mark returns TCP_NOTSENT_LOWAT of a connection; 0: the sysctl's value.
func mark(t testing.TB, conn *net.TCPConn) (bytes int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		bytes, err = unix.GetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_NOTSENT_LOWAT)
	}))
	must(t, err)
	return bytes
}

func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(soon)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so within %v that %s", soon, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func awaitMark(t testing.TB, what string, conn *net.TCPConn, expected int) {
	t.Helper()
	await(t, fmt.Sprintf("%s has a mark of %d bytes", what, expected), func() bool { return mark(t, conn) == expected })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lines is a log in memory.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(b)
}

func (l *lines) have(word string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Contains(l.text.String(), word)
}
