// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
)

// ownCost returns the resources that this process has used. A network may have 500 agents, so they must stay cheap.
func ownCost() *agentv1.Cost {
	cost := &agentv1.Cost{}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		cost.CpuUs = uint64(usage.Utime.Nano()+usage.Stime.Nano()) / 1000
	}
	// The second field of proc_pid_statm(5), in pages.
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseUint(fields[1], 10, 64)
			cost.RssBytes = pages * uint64(os.Getpagesize())
		}
	}
	return cost
}
