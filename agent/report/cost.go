// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
)

// What this process has cost since it was started: 500 of us must not be what a network is slow from.
func ownCost() *agentv1.Cost {
	cost := &agentv1.Cost{}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		cost.CpuUs = uint64(usage.Utime.Nano()+usage.Stime.Nano()) / 1000
	}
	// Pages, the second number of proc_pid_statm(5).
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseUint(fields[1], 10, 64)
			cost.RssBytes = pages * uint64(os.Getpagesize())
		}
	}
	return cost
}
