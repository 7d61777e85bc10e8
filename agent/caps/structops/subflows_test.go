// SPDX-License-Identifier: Apache-2.0

package structops

import (
	"testing"

	"bicast/agent/caps/capstest"
)

func TestSubflowsShareACap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Join("subflow")
	executor := w.Executor()
	w.Start(executor)
	older := w.Upload(far, true)
	w.AwaitSubflows(older, "two subflows", func(wifi, lte capstest.Subflow) bool { return true })
	w.Order(executor, capOf(near, far, 30, 40), capOf(nearLTE, far, 30, 40))
	newer := w.Upload(far, true)
	for _, each := range []*capstest.Upload{older, newer} {
		w.AwaitSubflows(each, "15 to 20 each", func(wifi, lte capstest.Subflow) bool {
			return between(uint32(wifi.Window), 15, 20) && between(uint32(lte.Window), 15, 20)
		})
		for range 10 {
			if now := w.Subflows(each); now[near].Window+now[nearLTE].Window > 40 {
				t.Fatalf("%v, expected 40 at most", now)
			}
		}
	}
	w.Order(executor, capOf(near, far, 30, 40))
	for _, each := range []*capstest.Upload{older, newer} {
		w.AwaitSubflows(each, "one with all of it, the other without", func(wifi, lte capstest.Subflow) bool {
			return between(uint32(wifi.Window), 30, 40) && lte.Control == "reno"
		})
	}
	w.Order(executor)
	w.AwaitSubflows(older, "what they had", func(wifi, lte capstest.Subflow) bool { return wifi.Control == "reno" && lte.Control == "reno" })
}

func TestIdleSubflowLeavesItsShareToTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Join("subflow", "backup")
	executor := w.Executor()
	w.Start(executor)
	upload := w.Upload(far, true)
	w.Order(executor, capOf(near, far, 30, 40), capOf(nearLTE, far, 30, 40))
	w.AwaitSubflows(upload, "all of it by Wi-Fi", func(wifi, lte capstest.Subflow) bool {
		return between(uint32(wifi.Window), 30, 40) && lte.Control == wifi.Control
	})
}
