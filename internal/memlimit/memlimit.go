// SPDX-License-Identifier: Apache-2.0

// Package memlimit computes how many connections fit into this host's memory, and bounds Go's heap.
package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// Memory of a connection that waits for both sides to read, with its TLS state. An idle one takes a third.
	connectionBytes = 128 << 10

	connectionFiles = 2
	otherFiles      = 512 // including descriptors opened in advance

	minConnections, maxConnections = 512, 65536

	fallbackBytes = 1 << 30 // if the memory is unknown
)

// Connections returns how many connections half of this process's memory and its descriptors allow.
func Connections() int {
	files := unix.Rlimit{Cur: math.MaxInt64}
	unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	return connections(memory("/proc", "/sys/fs/cgroup"), files.Cur)
}

func connections(memory, files uint64) int {
	return int(min(max(memory/2/connectionBytes, minConnections), maxConnections, max(files-min(files, otherFiles), 2*connectionFiles)/connectionFiles))
}

// Bound sets Go's memory limit to five eighths of this process's memory, until undo is called.
func Bound() (undo func()) {
	before := debug.SetMemoryLimit(int64(memory("/proc", "/sys/fs/cgroup") / 8 * 5))
	return func() { debug.SetMemoryLimit(before) }
}

// memory returns the memory that this process may use: the minimum of the host's and of its control groups' limits.
func memory(proc, cgroups string) uint64 {
	found := uint64(math.MaxUint64)
	if text, err := os.ReadFile(filepath.Join(proc, "meminfo")); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
				if kib, err := strconv.ParseUint(fields[1], 10, 44); err == nil {
					found = kib << 10
				}
			}
		}
	}
	text, _ := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	for _, line := range strings.Split(string(text), "\n") {
		own, unified := strings.CutPrefix(line, "0::")
		if !unified {
			continue
		}
		for ; own != "/" && own != "." && own != ""; own = filepath.Dir(own) {
			for _, name := range []string{"memory.high", "memory.max"} {
				found = min(found, limit(filepath.Join(cgroups, own, name)))
			}
		}
	}
	if found == math.MaxUint64 {
		return fallbackBytes
	}
	return found
}

// limit reads a limit of a control group; "max" and a missing file mean none.
func limit(file string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxUint64
	}
	bytes, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return bytes
}
