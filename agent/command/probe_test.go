// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

func keyFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// reflecting starts a reflector, and returns its address and its output.
func reflecting(t *testing.T, host *lab.Host, key string) (process *exec.Cmd, at string, said io.Reader) {
	t.Helper()
	process = agent("reflect", "--listen", "10.1.0.2:0", "--key-file", key, "--netns", host.Path())
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	at, answers := strings.CutPrefix(strings.TrimSpace(line), "answering probes at ")
	if err != nil || !answers {
		t.Fatalf("it said %q (%v), expected where it answers", line, err)
	}
	return process, at, lines
}

func TestProbeMeasuresThePathToTheReflector(t *testing.T) {
	client, server := lab.Two(t)
	key := keyFile(t, strings.Repeat("5a", 32)+"\n", 0o600)
	reflector, at, rest := reflecting(t, server, key)
	var out, complaints bytes.Buffer
	probe := agent("probe", "--to", at, "--key-file", key, "--netns", client.Path(), "--device", "wifi",
		"--tries", "2", "--every", "1ms", "--lengths", "16-1440/16", "--trains", "2", "--train-packets", "10")
	probe.Stdout, probe.Stderr = &out, &complaints
	if err := probe.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2+180+20 || lines[0] != "# bicast probe 1 stamps=software transport=udp" || !strings.HasPrefix(lines[201], "2,1440,") {
		t.Fatalf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
	for _, words := range []string{"sent 200 packets in ", "lost 0, ", "stamps: here of the kernel, there of the kernel\n"} {
		if !strings.Contains(complaints.String(), words) {
			t.Fatalf("%q, expected %q in it", complaints.String(), words)
		}
	}
	reflector.Process.Signal(unix.SIGTERM)
	if said, _ := io.ReadAll(rest); !strings.Contains(string(said), "not answered: 0 unauthenticated, 0 repeated, 0 above the limit") {
		t.Fatalf("it said %q", said)
	}
	if err := reflector.Wait(); err != nil {
		t.Fatalf("%v, expected it to end well", err)
	}
}

func TestProbeErrorsAreExplained(t *testing.T) {
	key := keyFile(t, strings.Repeat("5a", 32), 0o600)
	read := keyFile(t, strings.Repeat("5a", 32), 0o644)
	half := keyFile(t, strings.Repeat("5a", 31), 0o600)
	to := "127.0.0.1:1"
	for _, wrong := range []struct {
		code  int
		words string
		argv  []string
	}{
		{1, "nobody listens at 127.0.0.1:1 (connection refused)", []string{"probe", "--to", to, "--key-file", key}},
		{2, "chmod 600", []string{"probe", "--to", to, "--key-file", read}},
		{2, "expected 64 hexadecimal digits", []string{"probe", "--to", to, "--key-file", half}},
		{2, "openssl rand -hex 32", []string{"reflect", "--listen", to, "--key-file", half + "s"}},
		{2, "probe needs --to", []string{"probe", "--key-file", key}},
		{2, "expected FIRST-LAST/STEP", []string{"probe", "--to", to, "--key-file", key, "--lengths", "8-16/8"}},
		{2, "expected 200µs to 1m0s; no more than 5000 a second are answered", []string{"probe", "--to", to, "--key-file", key, "--every", "0"}},
		{2, "reflect needs --listen", []string{"reflect", "--listen", "0.0.0.0", "--key-file", key}},
		{1, "cannot listen at 0.0.0.0:7", []string{"reflect", "--listen", "0.0.0.0:7", "--key-file", key}},
		{1, "cannot bind to 192.0.2.1:7", []string{"reflect", "--listen", "192.0.2.1:7", "--key-file", key}},
		{0, "usage: bicast-agent probe", []string{"probe", "--help"}},
		{0, "usage: bicast-agent reflect", []string{"reflect", "--help"}},
	} {
		process := agent(wrong.argv...)
		said, _ := process.CombinedOutput()
		if code := process.ProcessState.ExitCode(); code != wrong.code || !strings.Contains(string(said), wrong.words) {
			t.Errorf("%v: exit code %d and %q, expected %d and %q in it", wrong.argv, code, said, wrong.code, wrong.words)
		}
	}
}

func TestProbeDownMeasuresThePathBack(t *testing.T) {
	client, server := lab.Two(t)
	key := keyFile(t, strings.Repeat("5a", 32), 0o600)
	_, at, _ := reflecting(t, server, key)
	var out, complaints bytes.Buffer
	probe := agent("probe", "--down", "--to", at, "--key-file", key, "--netns", client.Path(), "--tries", "2", "--every", "1ms")
	probe.Stdout, probe.Stderr = &out, &complaints
	if err := probe.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2+2*87 || lines[0] != "# bicast probe 1 stamps=software transport=udp direction=down" {
		t.Fatalf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
	for _, line := range lines[2:] {
		if !strings.HasSuffix(line, ",,") {
			t.Fatalf("%q, expected two times at most", line)
		}
	}
	if words := "asked for 174 packets in "; !strings.Contains(complaints.String(), words) {
		t.Fatalf("%q, expected %q in it", complaints.String(), words)
	}
}
