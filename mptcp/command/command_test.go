// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/mptcp"
	"bicast/mptcp/command"
)

// bench is a client with one connection from wifi.
type bench struct {
	t              *testing.T
	client, server *lab.Host
	conn           net.Conn
}

// newBench returns a bench under the userspace path manager.
func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchUnder(t, mptcp.UserspaceManager)
}

func newBenchUnder(t *testing.T, manager mptcp.PathManager) *bench {
	t.Helper()
	b := &bench{t: t}
	b.client, b.server = lab.Two(t)
	if manager == mptcp.UserspaceManager {
		b.client.Sysctl("mptcp/pm_type", "1")
	}
	b.conn = b.client.Dial(b.server.Echo(lab.Service+":0"), "10.1.0.1")
	if err := lab.Exchange(b.conn, 1000); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a verb at the client and returns all output.
func (b *bench) run(code int, words ...string) string {
	b.t.Helper()
	var printed bytes.Buffer
	if !slices.Contains(words, "--netns") {
		words = append(words, "--netns", b.client.Path())
	}
	if got := command.Main(words, &printed, &printed); got != code {
		b.t.Fatalf("%v: exit code %d, want %d:\n%s", words, got, code, &printed)
	}
	return printed.String()
}

func (b *bench) wants(printed string, parts ...string) {
	b.t.Helper()
	for _, part := range parts {
		if !strings.Contains(printed, part) {
			b.t.Errorf("expected %q in:\n%s", part, printed)
		}
	}
}

type listed struct {
	Token       string
	PathManager string `json:"path_manager"`
	Processes   []struct {
		PID  int
		Name string
	}
	Subflows []struct {
		LocalAddress string `json:"local_address"`
		BackupByUs   bool   `json:"backup_by_us"`
		SRTT         int    `json:"srtt_us"`
	}
}

func (b *bench) list(options ...string) []listed {
	b.t.Helper()
	var all []listed
	if err := json.Unmarshal([]byte(b.run(0, append([]string{"list", "--json"}, options...)...)), &all); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// token returns the token of the only connection.
func (b *bench) token() string {
	b.t.Helper()
	return b.list()[0].Token
}

func TestListShowsProcessAndRTT(t *testing.T) {
	b := newBench(t)
	one := b.list()[0]
	if one.PathManager != "userspace" || one.Processes[0].PID != os.Getpid() || one.Subflows[0].SRTT == 0 {
		t.Errorf("got %+v", one)
	}
	b.wants(b.run(0, "list"), one.Token, one.Processes[0].Name, "10.1.0.1:", "active", " ms (")
}

func TestListFiltersByProcess(t *testing.T) {
	b := newBench(t)
	name := b.list()[0].Processes[0].Name
	if n := len(b.list("--pid", fmt.Sprint(os.Getpid()))); n != 1 {
		t.Errorf("%d connections of this process, want 1", n)
	}
	if n := len(b.list("--name", name)); n != 1 {
		t.Errorf("%d connections of %s, want 1", n, name)
	}
	if n := len(b.list("--pid", "1")); n != 0 {
		t.Errorf("%d connections of process 1, want none", n)
	}
}

func TestAddSwitchRemoveDescribeWhatTheyDid(t *testing.T) {
	b := newBench(t)
	conn := b.token()
	b.wants(b.run(0, "add", conn, "10.2.0.1"), "is established")
	b.wants(b.run(0, "switch", conn, "lte"), "10.1.0.1", "is backup")
	if paths := b.list()[0].Subflows; !paths[0].BackupByUs || paths[1].BackupByUs {
		t.Errorf("got %+v", paths)
	}
	b.wants(b.run(0, "list"), "backup (us)")
	b.wants(b.run(0, "switch", "--all", "10.1.0.1"), "is active")
	b.wants(b.run(0, "switch", "lte", "--hard", "--pid", fmt.Sprint(os.Getpid())), "is closed")
	b.run(0, "add", "0x"+conn, "10.1.0.1")
	b.wants(b.run(0, "remove", conn, "lte"), "is closed")
	if paths := b.list()[0].Subflows; len(paths) != 1 || paths[0].LocalAddress != "10.1.0.1" {
		t.Errorf("left is %+v", paths)
	}
}

func TestAmbiguousPathChangesNothing(t *testing.T) {
	b := newBench(t)
	conn := b.token()
	b.run(0, "add", conn, "10.2.0.1")
	b.run(0, "switch", conn, "lte")
	before := b.list()[0].Subflows
	theirs := lab.Service // the remote address of both paths
	for _, words := range [][]string{{"remove", conn, theirs}, {"switch", conn, theirs}, {"switch", "--all", theirs}} {
		b.wants(b.run(2, words...), theirs+" matches 2 paths of connection ", "10.1.0.1:", "10.2.0.1:",
			": name one by our address or interface\n")
	}
	if after := b.list()[0].Subflows; len(after) != 2 || after[0].BackupByUs != before[0].BackupByUs ||
		after[1].BackupByUs != before[1].BackupByUs {
		t.Fatalf("the paths are %+v, expected %+v", after, before)
	}
	wifi := regexp.MustCompile(`10\.1\.0\.1:\d+`).FindString(b.run(0, "list"))
	b.wants(b.run(0, "remove", conn, wifi), wifi, "is closed")
	if left := b.list()[0].Subflows; len(left) != 1 || left[0].LocalAddress != "10.2.0.1" {
		t.Fatalf("left is %+v, expected the path from 10.2.0.1", left)
	}
}

func TestFailuresHaveExitCodesAndAdvice(t *testing.T) {
	b := newBench(t)
	conn := b.token()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code  int
		words []string
		says  string
	}{
		{2, []string{"fly"}, "there is no verb"},
		{2, []string{"list", "1"}, "usage: bicast mptcp list"},
		{2, []string{"list", "--jsn"}, "not defined: --jsn\n"},
		{2, []string{"list", "--netns"}, "needs an argument: --netns\n"},
		{2, []string{"list", "--pid", "x"}, "for flag --pid: "},
		{2, []string{"list", "--netns", ""}, "for flag --netns: expected a name of `ip netns`"},
		{2, []string{"switch", conn}, "usage: bicast mptcp switch"},
		{2, []string{"switch", "--all", "--pid", "1", "lte"}, "one of CONN, --pid and --all"},
		{2, []string{"switch", "one", "lte"}, "8 hex digits"},
		{2, []string{"switch", conn, "ether"}, "an interface of ours"},
		{2, []string{"add", conn, "here"}, "is no address"},
		{2, []string{"switch", "1", "lte"}, "8 hex digits"},
		{13, []string{"switch", "00000000", "lte"}, "list` shows what there is"},
		{15, []string{"switch", conn, "lte"}, "only 10.1.0.1:"},
		{15, []string{"switch", "--all", "lte"}, "`add` opens one"},
		{15, []string{"remove", conn, "wifi"}, "its only subflow"},
		{17, []string{"add", conn, "10.2.0.1", "10.2.0.2:9"}, "connection refused"},
		{1, []string{"add", conn, "192.0.2.1"}, "the kernel said"},
		{12, []string{"list", "--netns", plain}, "is no network namespace (the kernel said"},
		{12, []string{"list", "--netns", "/proc/self/ns/mnt"}, "/proc/self/ns/mnt is a mount namespace, no network namespace: "},
		{13, []string{"list", "--pid", "999999999"}, "there is no process 999999999"},
		{13, []string{"switch", "--pid", "999999999", "lte"}, "there is no process 999999999"},
		{15, []string{"switch", "--pid", "1", "wifi"}, "process 1 has no MPTCP connections in this network namespace"},
		{0, []string{"list", "--pid", "1"}, "process 1 has no MPTCP connections in this network namespace"},
		{0, []string{"list", "--name", "nobody"}, "processes called nobody have no MPTCP connections"},
		{1, []string{"setup", "--undo", "--state", filepath.Join(t.TempDir(), "none")}, "nothing to undo"},
		{1, []string{"setup", "--interface", "ether", "--state", filepath.Join(t.TempDir(), "s")}, "no interface ether"},
	} {
		b.wants(b.run(c.code, c.words...), c.says)
	}
	var printed bytes.Buffer
	if code := command.Main([]string{"list", "--netns", "nowhere"}, io.Discard, &printed); code != 12 {
		t.Errorf("a namespace that is not there: exit code %d, want 12: %s", code, &printed)
	}
}

func TestEveryVerbHasHelp(t *testing.T) {
	b := newBench(t)
	for _, verb := range []string{"list", "watch", "monitor", "switch", "add", "remove", "setup"} {
		b.wants(b.run(0, verb, "--help"), "usage: bicast mptcp "+verb, "\n  --netns NAME\n")
		b.wants(b.run(0, "--help"), "\n  "+verb)
	}
}

func TestMonitorPrintsEventsAsJSONLines(t *testing.T) {
	b := newBench(t)
	lines, pen := io.Pipe()
	go command.Main([]string{"monitor", "--netns", b.client.Path()}, pen, io.Discard)
	decoder := json.NewDecoder(lines)
	told := make(chan map[string]any)
	go func() {
		for {
			var event map[string]any
			if decoder.Decode(&event) != nil {
				return
			}
			told <- event
		}
	}()
	t.Cleanup(func() { lines.Close() }) // its next line ends monitor
	// monitor is ready when it prints an event: cause events until then.
	for n := 0; ; n++ {
		extra := b.client.Dial(netip.MustParseAddrPort(b.conn.RemoteAddr().String()), "10.1.0.1")
		lab.Exchange(extra, 1)
		extra.Close()
		select {
		case event := <-told:
			if event["event"] != "created" && event["event"] != "established" && event["event"] != "closed" || event["token"] == nil {
				t.Errorf("got %v", event)
			}
			return
		default:
		}
		if n == 10000 {
			t.Fatal("monitor tells nothing")
		}
	}
}

func TestSetupUndoRestoresEverything(t *testing.T) {
	b := newBench(t)
	state := filepath.Join(t.TempDir(), "state.json")
	before := b.everything()
	said := b.run(0, "setup", "--backup", "lte", "--state", state)
	b.wants(said, "changed  net.mptcp.stale_loss_cnt: 1 (was: 4)", "right    net.mptcp.enabled: 1",
		"changed  limit of subflows beside the first: 8 (was: 2)",
		"changed  endpoint 10.1.0.1: subflow (was: absent)", "changed  endpoint 10.2.0.1: subflow backup (was: absent)",
		"endpoint fd01::1")
	b.wants(b.client.Run("ip", "mptcp", "endpoint"), "10.1.0.1 id 1 subflow dev wifi", "10.2.0.1 id 3 subflow backup dev lte")
	if again := b.run(0, "setup", "--backup", "lte", "--state", state); strings.Contains(again, "changed") {
		t.Errorf("a second run changes something:\n%s", again)
	}
	b.client.Sysctl("mptcp/add_addr_timeout", "9")
	b.wants(b.run(0, "setup", "--undo", "--state", state), "changed  net.mptcp.stale_loss_cnt: 4 (was: 1)",
		"left     net.mptcp.add_addr_timeout: 9 (somebody else has set it since)")
	b.client.Sysctl("mptcp/add_addr_timeout", "120")
	if after := b.everything(); after != before {
		t.Errorf("not as before:\n%s\nwas:\n%s", after, before)
	}
}

func TestUndoRestoresTheStateBeforeTheFirstSetup(t *testing.T) {
	b := newBench(t)
	state := filepath.Join(t.TempDir(), "state.json")
	b.client.Sysctl("mptcp/stale_loss_cnt", "3")
	b.run(0, "setup", "--state", state)
	b.client.Sysctl("mptcp/stale_loss_cnt", "7")
	b.wants(b.run(0, "setup", "--state", state), "changed  net.mptcp.stale_loss_cnt: 1 (was: 7)")
	b.wants(b.run(0, "setup", "--undo", "--state", state), "changed  net.mptcp.stale_loss_cnt: 3 (was: 1)")
}

func TestSetupSuggestsAWritableStateFile(t *testing.T) {
	b := newBench(t)
	before := b.everything()
	readOnly := t.TempDir()
	if err := unix.Mount("none", readOnly, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(readOnly, 0); err != nil {
			t.Error(err)
		}
	})
	state := filepath.Join(readOnly, "bicast", "state.json")
	for _, options := range [][]string{nil, {"--dry-run"}} {
		said := b.run(1, append([]string{"setup", "--state", state}, options...)...)
		b.wants(said, state, "read-only file system", "--state DIRECTORY/")
	}
	if after := b.everything(); after != before {
		t.Errorf("not as before:\n%s\nwas:\n%s", after, before)
	}
	writable := filepath.Join(t.TempDir(), "bicast", "state.json")
	b.run(0, "setup", "--dry-run", "--state", writable)
	if _, err := os.Stat(filepath.Dir(writable)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, expected that a dry run makes nothing", err)
	}
}

func TestUndoRefusesAnotherNamespace(t *testing.T) {
	b := newBench(t)
	state := filepath.Join(t.TempDir(), "state.json")
	b.run(0, "setup", "--state", state)
	b.client = b.server
	b.wants(b.run(1, "setup", "--undo", "--state", state), "belongs to another network namespace")
}

func (b *bench) everything() string {
	var sysctls string
	for _, name := range []string{"stale_loss_cnt", "blackhole_timeout", "add_addr_timeout", "checksum_enabled", "enabled"} {
		sysctls += b.client.Run("cat", "/proc/sys/net/mptcp/"+name)
	}
	return sysctls + b.client.Run("ip", "mptcp", "limits") + b.client.Run("ip", "mptcp", "endpoint")
}
