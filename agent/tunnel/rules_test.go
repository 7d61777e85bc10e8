// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestFlushedRulesAreRestoredAndLoggedOnce(t *testing.T) {
	w := newWorld(t, false).begin()
	w.nft(w.far, "table inet else {\nchain input {\ntype filter hook input priority 0;\nudp dport 1 accept\n}\n}")
	var heard bytes.Buffer // under the executor's mutex
	w.away.executor.mutex.Lock()
	w.away.executor.log = slog.New(slog.NewTextHandler(&heard, nil))
	w.away.executor.mutex.Unlock()
	w.stranger(vxlan(testVNI, make([]byte, 60)))
	w.await("a stranger is counted", func() bool { return w.away.says().GetUnauthenticated() == 1 })
	w.far.Run("nft", "flush", "table", "inet", table)
	w.await("the rules are there again", func() bool {
		stand := w.far.Run("nft", "list", "table", "inet", table)
		return strings.Count(stand, "drop") == 2 && strings.Count(stand, "accept") == 3 // one is the chain's
	})
	w.stranger(vxlan(testVNI, make([]byte, 60)))
	w.await("strangers are counted on", func() bool { return w.away.says().GetUnauthenticated() == 2 })
	w.await("packets go through", func() bool { return w.ping(100) })
	for range 3 {
		w.away.executor.tick()
	}
	w.away.executor.mutex.Lock()
	defer w.away.executor.mutex.Unlock()
	if said := heard.String(); strings.Count(said, "is restored") != 1 {
		t.Fatalf("%s, expected it once", said)
	}
}
