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

// A relay with so many terminals, each with a connection by both paths.
func (b *bench) house(terminals int) {
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

func TestAPathThatAllOf250TerminalsLoseIsLeftAndToldForEach(t *testing.T) {
	b := newBench(t)
	b.house(250)
	b.pass((stallMS + 1) * time.Millisecond)
	b.expectFired(250)
}

func BenchmarkLookAt250Terminals(b *testing.B) {
	bench := newBench(b)
	bench.house(250)
	for b.Loop() {
		bench.step(context.Background())
	}
}
