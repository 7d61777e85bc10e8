// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// owner describes the process that registered a congestion control. It searches for a process with a link to a map of
// this name.
func owner(called string) string {
	descriptions, err := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	if err != nil {
		return "in a process that cannot be found"
	}
	for _, path := range descriptions {
		number, err := strconv.ParseUint(mapOf(path), 10, 32)
		if err != nil {
			continue
		}
		registered, err := ebpf.NewMapFromID(ebpf.MapID(number))
		if err != nil {
			continue
		}
		info, err := registered.Info()
		registered.Close()
		if err == nil && info.Name == called {
			pid := strings.Split(path, "/")[2]
			words, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(words)))
		}
	}
	return "in a process that this agent cannot see (`bpftool struct_ops` lists it)"
}

// mapOf returns the ID of the map that a struct_ops link registers, or "".
func mapOf(description string) string {
	lines, err := os.ReadFile(description)
	if err != nil || !strings.Contains(string(lines), "link_type:\tstruct_ops") {
		return ""
	}
	_, behind, _ := strings.Cut(string(lines), "map_id:\t")
	number, _, _ := strings.Cut(behind, "\n")
	return number
}
