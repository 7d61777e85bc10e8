// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/internal/controllertest"
	"bicast/api/agentv1"
)

func TestMessagesOfJoinAndRun(t *testing.T) {
	b := controllertest.New(t)
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
		{2, "join needs", []string{"join", b.Enrolment}},
		{2, "bicast enroll NAME", []string{"join", b.Enrolment, "--name", "phone", "--token", "half"}},
		{1, "cannot read the token from standard input: EOF", []string{"join", b.Enrolment, "--name", "phone", "--token", "-"}},
		{2, "not defined: --nome; see `bicast-agent join --help`", []string{"join", "--nome", "phone"}},
		{2, "for flag --netns: expected a name", []string{"run", "--netns", ""}},
		{2, "takes no arguments", []string{"release", "relay"}},
		{1, "nobody answers at 127.0.0.1:1 (connection refused)", []string{
			"join", "127.0.0.1:1", "--name", "phone", "--token", b.Token("phone").String(), "--directory", directory,
		}},
		{0, "usage: bicast-agent join", []string{"join", "--help"}},
		{0, "\n  --token TOKEN\n", []string{"join", "--help"}},
		{0, "usage: bicast-agent run", []string{"run", "--help"}},
		{0, "usage: bicast-agent release", []string{"release", "--help"}},
		{0, "usage: bicast-agent caps", []string{"caps", "--help"}},
		{0, "congestion-control: yes\nclamp: yes\nwindow: yes\n", []string{"caps"}},
		{2, "takes no arguments", []string{"caps", "window"}},
	} {
		if said, code := run(wrong.argv...); code != wrong.code || !strings.Contains(said, wrong.words) {
			t.Fatalf("%v: exit code %d and %q, expected %d and %q in it", wrong.argv, code, said, wrong.code, wrong.words)
		}
	}
	token := b.Token("phone").String()
	said, code := run("join", b.Enrolment, "--name", "phone", "--token", token, "--directory", "/proc/nowhere")
	if code != 1 || !strings.Contains(said, "cannot save the identity") || !strings.Contains(said, "another directory with --directory") {
		t.Fatalf("exit code %d and %q, expected that the identity cannot be saved", code, said)
	}
	said, code = run("join", b.Enrolment, "--name", "phone", "--token", token, "--directory", directory) // the token is still valid
	if code != 0 || !strings.Contains(said, "joined as phone") {
		t.Fatalf("exit code %d and %q, expected to have joined", code, said)
	}
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(b.Token("phone").String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	again := agent("join", b.Enrolment, "--name", "phone", "--token", "-", "--directory", directory)
	again.Stdin = file
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s, expected it to join with a token that no command line has", err, out)
	}
	phone := agent("run", "--directory", directory)
	var log bytes.Buffer
	phone.Stderr = &log
	if err := phone.Start(); err != nil {
		t.Fatal(err)
	}
	visit, hello := b.Welcomed(1000)
	if hello.GetRole() != agentv1.Role_ROLE_TERMINAL {
		t.Fatalf("%v, expected a terminal", hello)
	}
	visit.Report() // the agent has received the welcome
	phone.Process.Signal(unix.SIGTERM)
	if err := phone.Wait(); err != nil {
		t.Fatalf("%v, expected it to end well", err)
	}
	visit.Stopped()
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); !strings.Contains(lines[len(lines)-1], "msg=stopped") {
		t.Fatalf("it logged %q, expected the last line to say that it stopped", lines)
	}
}

func TestAnAgentHasTheRoleOfItsCertificate(t *testing.T) {
	b := controllertest.New(t)
	for role, hello := range map[string]agentv1.Role{
		"terminal:tv": agentv1.Role_ROLE_TERMINAL, "gateway": agentv1.Role_ROLE_GATEWAY,
	} {
		directory := t.TempDir()
		if err := b.Authority.Bound("tv", role, b.Sessions).Save(directory); err != nil {
			t.Fatal(err)
		}
		said, err := agent("run", "--role", "relay", "--directory", directory).CombinedOutput()
		if err == nil || !strings.Contains(string(said), "the certificate of tv is for a ") {
			t.Fatalf("%v: %s, expected that it is no relay", err, said)
		}
		running := agent("run", "--directory", directory)
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		visit, word := b.Welcomed(1000)
		if word.GetRole() != hello {
			t.Errorf("%v, expected the role of %q", word, role)
		}
		visit.Report() // the agent has received the welcome
		running.Process.Signal(unix.SIGTERM)
		visit.Stopped()
		running.Wait()
	}
}

func TestARevokedAgentLogsItsName(t *testing.T) {
	b := controllertest.New(t)
	phone := agent("run", "--directory", b.Directory("phone"))
	said, err := phone.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := phone.Start(); err != nil {
		t.Fatal(err)
	}
	defer phone.Wait()
	defer time.AfterFunc(controllertest.Patience, func() { phone.Process.Kill() }).Stop() // this also ends its output
	defer phone.Process.Kill()
	visit, _ := b.Welcomed(60000)
	visit.End(agentv1.End_CREDENTIAL, "the certificate was revoked")
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.Contains(lines.Text(), "`bicast enroll phone`") {
			return
		}
	}
	t.Fatal("the log does not say how to enrol again")
}
