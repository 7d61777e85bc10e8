// SPDX-License-Identifier: Apache-2.0

// Package memlimit computes how many connections this host has memory for, and bounds what the collector lets this process use.
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
	// One that waits for both its sides, with what TLS holds. An idle one takes a third of it.
	connectionBytes = 128 << 10

	connectionFiles = 2
	otherFiles      = 512 // what is opened in advance, too

	least, most = 512, 65536

	fallbackBytes = 1 << 30 // where nothing is known
)

// Connections returns how many there may be at once: in half of the memory that this process may have, and with its files.
func Connections() int {
	files := unix.Rlimit{Cur: math.MaxInt64}
	unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	return connections(memory("/proc", "/sys/fs/cgroup"), files.Cur)
}

func connections(memory, files uint64) int {
	return int(min(max(memory/2/connectionBytes, least), most, max(files-min(files, otherFiles), 2*connectionFiles)/connectionFiles))
}

// Bound has Go's collector keep this process within five eighths of the memory that it may have, until undo is called.
func Bound() (undo func()) {
	before := debug.SetMemoryLimit(int64(memory("/proc", "/sys/fs/cgroup") / 8 * 5))
	return func() { debug.SetMemoryLimit(before) }
}

// memory returns what this process may have: of the host's, or of one of its control groups, whatever is least.
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

// limit returns what stands in a file of a control group; "max" and no file are none.
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
