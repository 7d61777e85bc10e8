// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"bicast/api/agentv1"
)

// relay arms failovers for terminals that each have a connection over both paths.
func (b *bench) relay(terminals int) {
	b.t.Helper()
	for i := range terminals {
		n := byte(i + 1)
		order := armed(fmt.Sprint(i))
		for j, path := range []*agentv1.Path{order.Watched, order.Fallback} {
			address := netip.AddrFrom4([4]byte{10, 0, byte(j), n})
			path.TerminalAddresses = []string{address.String()}
			b.subflows = append(b.subflows, waiting(uint64(2*i+j), address.String(), 7))
		}
		if _, err := b.Arm(order); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestFailoversFireForEachOf250Terminals(t *testing.T) {
	b := newBench(t)
	b.relay(250)
	b.pass((stallMS + 1) * time.Millisecond)
	b.expectFired(250)
}

func BenchmarkLookAt250Terminals(b *testing.B) {
	bench := newBench(b)
	bench.relay(250)
	for b.Loop() {
		bench.step(context.Background())
	}
}
