// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/netip"
	"testing"
)

func TestTerminalLeavesConnectionsToOthers(t *testing.T) {
	const maxConnections = 1024
	proxy, greedy, other := &Proxy{maxConnections: maxConnections}, &Terminal{}, &Terminal{}
	for range 2 * maxConnections {
		if !proxy.enter(greedy, false) {
			proxy.leave(greedy)
		}
	}
	if n := greedy.Totals().Connections; n != maxConnections/2 {
		t.Fatalf("one alone has %d connections, expected half of %d", n, maxConnections)
	}
	for n := range maxConnections / 4 {
		if !proxy.enter(other, false) {
			t.Fatalf("another one's connection %d is refused", n)
		}
	}
	for range maxConnections / 4 {
		proxy.leave(greedy)
	}
	if !proxy.enter(greedy, false) {
		t.Fatal("a client cannot open connections after its earlier ones ended")
	}
}

func TestSingleTerminalMayUseAllConnections(t *testing.T) {
	const maxConnections = 8
	proxy, only := &Proxy{maxConnections: maxConnections}, &Terminal{}
	for n := range maxConnections {
		if !proxy.enter(only, true) {
			t.Fatalf("connection %d of %d is refused", n, maxConnections)
		}
	}
	if proxy.enter(only, true) {
		t.Fatalf("more than %d connections are taken", maxConnections)
	}
}

func TestPlanAloneIsTrueForASingleTerminal(t *testing.T) {
	one, other := &Terminal{}, &Terminal{}
	first, second := netip.MustParseAddr("192.168.7.2"), netip.MustParseAddr("fd07::2")
	for _, c := range []struct {
		plan  Plan
		alone bool
	}{
		{Plan{Inside: one}, true},
		{Plan{Terminals: map[netip.Addr]*Terminal{first: one, second: one}}, true},
		{Plan{Terminals: map[netip.Addr]*Terminal{first: one, second: other}}, false},
		{Plan{Terminals: map[netip.Addr]*Terminal{first: one}, Inside: other}, false},
	} {
		if alone := c.plan.alone(one); alone != c.alone {
			t.Errorf("%+v: alone is %v, expected %v", c.plan, alone, c.alone)
		}
	}
}
