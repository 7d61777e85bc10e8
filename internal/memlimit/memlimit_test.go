// SPDX-License-Identifier: Apache-2.0

package memlimit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestConnectionsDependOnMemoryAndFiles(t *testing.T) {
	for _, c := range []struct {
		memory, files uint64
		expected      int
	}{
		{1 << 30, 1 << 20, 4096}, {24 << 30, 1 << 20, maxConnections}, {24 << 30, 20_512, 10_000}, {64 << 20, 1 << 20, minConnections}, {1 << 30, 256, 2},
	} {
		if n := connections(c.memory, c.files); n != c.expected {
			t.Errorf("%d bytes and %d files are room for %d connections, expected %d", c.memory, c.files, n, c.expected)
		}
	}
}

func TestMemoryIsTheMinimumOfHostAndControlGroups(t *testing.T) {
	proc, cgroups := t.TempDir(), t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, expected uint64) {
		t.Helper()
		if found := memory(proc, cgroups); found != expected {
			t.Errorf("%s: %d bytes, expected %d", when, found, expected)
		}
	}
	expect("nothing is known", fallbackBytes)
	write(filepath.Join(proc, "meminfo"), "MemTotal:        2048 kB\nMemFree:         1024 kB\n")
	expect("a host", 2048<<10)
	write(filepath.Join(proc, "self/cgroup"), "1:name=systemd:/x\n0::/system.slice/agent.service\n")
	write(filepath.Join(cgroups, "system.slice/agent.service/memory.max"), "max\n")
	expect("a group without a bound", 2048<<10)
	write(filepath.Join(cgroups, "system.slice/memory.max"), "1048576\n")
	expect("a group above it with one", 1<<20)
	write(filepath.Join(cgroups, "system.slice/agent.service/memory.high"), "524288\n")
	expect("its own, where it is held up", 1<<19)
}
