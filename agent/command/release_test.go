package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/agent/internal/controllertest"
	"bicast/internal/lab"
)

func TestReleaseTakesAwayWhatAKilledAgentLeftAtACgroupAndSaysHowMuch(t *testing.T) {
	host, cgroup := lab.One(t), newCgroup(t)
	directory := controllertest.New(t).Directory("phone")
	process := agent("run", "--netns", host.Path(), "--directory", directory, "--blocks", cgroup.Name())
	process.Stderr = diary(t)
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
		t.Fatalf("said %q, expected nothing to be done while an agent lives", said)
	}
	process.Process.Kill()
	process.Wait()
	if said := release(asService(t, host, "release", "--directory", directory)); !strings.Contains(said, "without CAP_SYS_ADMIN") ||
		programs(t, cgroup) != 1 {
		t.Fatalf("said %q, expected that it may not look", said)
	}
	if said := release(root()); said != "taken away from cgroups: 1 program that killed agents left\n" || programs(t, cgroup) != 0 {
		t.Fatalf("said %q with %d programs left, expected one to be taken away", said, programs(t, cgroup))
	}
	if said := release(root()); said != "" {
		t.Fatalf("said %q where nothing is left", said)
	}
}

// asService is an agent with the rights of deploy/bicast-agent-terminal.conf, inside a namespace.
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

// newCgroup has no process. It is known by a lock at the one above it, so that the next test takes away what a killed one left.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	const prefix = "bicast-test-release-"
	root := caps.Unified()
	if root == "" {
		t.Skip("no cgroup v2 is mounted here, and programs are attached to those")
	}
	old, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
	for _, each := range old {
		if place, err := locked(each); err == nil {
			os.Remove(filepath.Join(each, "below"))
			os.Remove(each)
			place.Close()
		}
	}
	above, err := os.MkdirTemp(root, prefix)
	if err != nil {
		t.Fatal(err)
	}
	place, err := locked(above)
	below := filepath.Join(above, "below")
	if err := errors.Join(err, os.Mkdir(below, 0o755)); err != nil {
		t.Fatal(err)
	}
	cgroup, err := os.Open(below)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cgroup.Close()
		if err := errors.Join(os.Remove(below), os.Remove(above), place.Close()); err != nil {
			t.Error(err)
		}
	})
	return cgroup
}

func locked(path string) (*os.File, error) {
	place, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(place.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, place.Close())
	}
	return place, nil
}

func programs(t *testing.T, cgroup *os.File) int {
	t.Helper()
	there, err := link.QueryPrograms(link.QueryOptions{Target: int(cgroup.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if err != nil {
		t.Fatal(err)
	}
	return len(there.Programs)
}
