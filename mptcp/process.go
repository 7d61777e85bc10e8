// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process that has a socket open.
type Process struct {
	PID  int
	Name string // as `ps -o comm` shows it
}

// Processes returns the processes that have sockets open, by inode. It scans all of /proc, so call it once for many
// sockets. Processes that it may not inspect, and those of other PID namespaces, are missing.
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
			continue // it ended meanwhile
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

// sockets returns the inodes of the sockets in a directory of descriptors, none if it is not readable.
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
