// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"testing"

	"bicast/agent/caps/capstest"
)

func TestSubflowsShareACap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Join("subflow")
	executor, _ := begun(w)
	older := w.Upload(far, true)
	w.AwaitSubflows(older, "two subflows", func(wifi, lte capstest.Subflow) bool { return true })
	w.Order(executor, capOf(near, far, 0, 40), capOf(nearLTE, far, 0, 40))
	newer := w.Upload(far, true)
	for _, each := range []*capstest.Upload{older, newer} {
		w.AwaitSubflows(each, "20 each", func(wifi, lte capstest.Subflow) bool { return wifi.Window == 20 && lte.Window == 20 })
	}
	w.Order(executor, capOf(near, far, 0, 40))
	for _, each := range []*capstest.Upload{older, newer} {
		w.AwaitSubflows(each, "one with all of it, the other without", func(wifi, lte capstest.Subflow) bool {
			return wifi.Window == 40 && lte.Window > 20
		})
	}
}
