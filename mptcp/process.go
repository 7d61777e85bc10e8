// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process holds a socket.
type Process struct {
	PID  int
	Name string // as `ps -o comm` shows it
}

// Processes tells who holds which sockets, by inode: it walks all of /proc, so ask once for many. Processes that this
// one may not look into, and those of other process namespaces, are not found.
func Processes() (map[uint64][]Process, error) {
	directories, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	found := map[uint64][]Process{}
	for _, directory := range directories {
		inodes := sockets(filepath.Join(directory, "fd"))
		if len(inodes) == 0 {
			continue
		}
		name, err := os.ReadFile(filepath.Join(directory, "comm"))
		if err != nil {
			continue // it ended while we looked
		}
		pid, err := strconv.Atoi(filepath.Base(directory))
		if err != nil {
			continue
		}
		for inode := range inodes {
			found[inode] = append(found[inode], Process{PID: pid, Name: strings.TrimSpace(string(name))})
		}
	}
	return found, nil
}

// The sockets among the descriptors in a directory, none where it is not ours to read.
func sockets(directory string) map[uint64]bool {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil
	}
	inodes := map[uint64]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(directory, entry.Name()))
		if err != nil {
			continue
		}
		if number, is := strings.CutPrefix(target, "socket:["); is {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
				inodes[inode] = true
			}
		}
	}
	return inodes
}
