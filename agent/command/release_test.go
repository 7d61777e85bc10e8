// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"bicast/agent/internal/controllertest"
	"bicast/internal/lab"
)

func TestReleaseDetachesProgramsOfAKilledAgent(t *testing.T) {
	host, cgroup := lab.One(t), lab.Cgroup(t)
	directory := controllertest.New(t).Directory("phone")
	process := agent("run", "--netns", host.Path(), "--directory", directory, "--blocks", cgroup)
	process.Stderr = outputFile(t)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	eventually(t, "its program stands", func() bool { return programs(t, cgroup) == 1 })
	release := func(by *exec.Cmd) string {
		t.Helper()
		said, err := by.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return string(said)
	}
	root := func() *exec.Cmd { return agent("release", "--netns", host.Path(), "--directory", directory) }
	if said := release(root()); said != "" || programs(t, cgroup) != 1 {
		t.Fatalf("said %q, expected no change while an agent runs", said)
	}
	process.Process.Kill()
	process.Wait()
	if said := release(asService(t, host, "release", "--directory", directory)); !strings.Contains(said, "without CAP_SYS_ADMIN") ||
		programs(t, cgroup) != 1 {
		t.Fatalf("said %q, expected that the rights are missing", said)
	}
	if said := release(root()); said != "detached from cgroups: 1 program of killed agents\n" || programs(t, cgroup) != 0 {
		t.Fatalf("said %q with %d programs left, expected one to be detached", said, programs(t, cgroup))
	}
	if said := release(root()); said != "" {
		t.Fatalf("said %q where nothing is left", said)
	}
}

// asService runs an agent with the rights of deploy/bicast-agent-terminal.conf inside a namespace.
func asService(t *testing.T, host *lab.Host, arguments ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command("nsenter", append([]string{
		"--net=" + host.Path(), "setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon", "--inh-caps=-all", "--no-new-privs", program,
	}, arguments...)...)
	process.Env = append(os.Environ(), asAgent+"=1")
	return process
}

func programs(t *testing.T, cgroup string) int {
	t.Helper()
	directory, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	there, err := link.QueryPrograms(link.QueryOptions{Target: int(directory.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if err != nil {
		t.Fatal(err)
	}
	return len(there.Programs)
}
