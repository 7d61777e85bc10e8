// SPDX-License-Identifier: Apache-2.0

package capstest

import (
	"fmt"
	"regexp"
	"strconv"
)

var (
	lines   = regexp.MustCompile(`(?m)^ESTAB.* (10\.\d\.0\.1)\S*:\d+ .*$`)
	windows = regexp.MustCompile(`\bcwnd:(\d+)`)
	names   = regexp.MustCompile(`\b(bicast_\w+|reno|cubic|bbr)\b`)
)

// Subflow is the congestion control and window of a subflow.
type Subflow struct {
	Control string
	Window  int
}

// Subflows returns the subflows of an upload by their local address.
func (w *World) Subflows(u *Upload) map[string]Subflow {
	w.T.Helper()
	found := map[string]Subflow{}
	shown := w.Host.Run("ss", "-tinOH", "dst", fmt.Sprintf("%s:%d", Far, u.port))
	for _, line := range lines.FindAllStringSubmatch(shown, -1) {
		window, name := windows.FindStringSubmatch(line[0]), names.FindString(line[0])
		if window == nil || name == "" {
			continue
		}
		segments, _ := strconv.Atoi(window[1])
		found[line[1]] = Subflow{name, segments}
	}
	return found
}

// AwaitSubflows waits until two subflows satisfy a condition.
func (w *World) AwaitSubflows(u *Upload, expected string, right func(wifi, lte Subflow) bool) {
	w.T.Helper()
	Await(w.T, func() bool {
		now := w.Subflows(u)
		return len(now) == 2 && right(now[Near], now[NearLTE])
	}, func() any { return w.Subflows(u) }, expected)
}

// Join configures the hosts so that connections get a second subflow over LTE.
func (w *World) Join(flags ...string) {
	w.T.Helper()
	w.Host.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	w.Far.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	w.Host.Run(append([]string{"ip", "mptcp", "endpoint", "add", NearLTE, "dev", "lte"}, flags...)...)
}
