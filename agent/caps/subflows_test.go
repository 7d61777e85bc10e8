package caps

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

var (
	lines   = regexp.MustCompile(`(?m)^ESTAB.* (10\.\d\.0\.1)\S*:\d+ .*$`)
	windows = regexp.MustCompile(`\bcwnd:(\d+)`)
	names   = regexp.MustCompile(`\b(bicast_\w+|reno|cubic|bbr)\b`)
)

type subflow struct {
	control string
	window  int
}

// subflows of an upload, by where they leave.
func (w *world) subflows(u *upload) map[string]subflow {
	w.t.Helper()
	found := map[string]subflow{}
	shown := w.host.Run("ss", "-tinOH", "dst", fmt.Sprintf("%s:%d", far, u.port))
	for _, line := range lines.FindAllStringSubmatch(shown, -1) {
		window, name := windows.FindStringSubmatch(line[0]), names.FindString(line[0])
		if window == nil || name == "" {
			continue
		}
		segments, _ := strconv.Atoi(window[1])
		found[line[1]] = subflow{name, segments}
	}
	return found
}

func (w *world) awaitSubflows(u *upload, expected string, right func(wifi, lte subflow) bool) {
	w.t.Helper()
	await(w.t, func() bool {
		now := w.subflows(u)
		return len(now) == 2 && right(now[near], now[nearLTE])
	}, func() any { return w.subflows(u) }, expected)
}

// join has connections get a second subflow, by LTE.
func (w *world) join(flags ...string) {
	w.t.Helper()
	w.host.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	w.far.Run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
	w.host.Run(append([]string{"ip", "mptcp", "endpoint", "add", nearLTE, "dev", "lte"}, flags...)...)
}

func TestSubflowsOfOneConnectionShareACap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("subflow")
	hand := w.hand()
	w.runs(hand)
	older := w.upload(far, true)
	w.awaitSubflows(older, "two subflows", func(wifi, lte subflow) bool { return true })
	w.order(hand, capOf(near, far, 30, 40), capOf(nearLTE, far, 30, 40))
	newer := w.upload(far, true)
	for _, each := range []*upload{older, newer} {
		w.awaitSubflows(each, "15 to 20 each", func(wifi, lte subflow) bool {
			return between(uint32(wifi.window), 15, 20) && between(uint32(lte.window), 15, 20)
		})
		for range 10 {
			if now := w.subflows(each); now[near].window+now[nearLTE].window > 40 {
				t.Fatalf("%v, expected 40 at most", now)
			}
		}
	}
	w.order(hand, capOf(near, far, 30, 40))
	for _, each := range []*upload{older, newer} {
		w.awaitSubflows(each, "one with all of it, the other without", func(wifi, lte subflow) bool {
			return between(uint32(wifi.window), 30, 40) && lte.control == "reno"
		})
	}
	w.order(hand)
	w.awaitSubflows(older, "what they had", func(wifi, lte subflow) bool { return wifi.control == "reno" && lte.control == "reno" })
}

func TestASubflowThatSendsNothingLeavesItsShareToTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("subflow", "backup")
	hand := w.hand()
	w.runs(hand)
	upload := w.upload(far, true)
	w.order(hand, capOf(near, far, 30, 40), capOf(nearLTE, far, 30, 40))
	w.awaitSubflows(upload, "all of it by Wi-Fi", func(wifi, lte subflow) bool {
		return between(uint32(wifi.window), 30, 40) && lte.control == wifi.control
	})
}
