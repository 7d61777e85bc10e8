// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/netip"
	"testing"
)

func TestATerminalThatOpensWhatItCanLeavesRoomToOthers(t *testing.T) {
	const most = 1024
	proxy, greedy, other := &Proxy{most: most}, &Terminal{}, &Terminal{}
	for range 2 * most {
		if !proxy.enter(greedy, false) {
			proxy.leave(greedy)
		}
	}
	if n := greedy.Totals().Connections; n != most/2 {
		t.Fatalf("one alone has %d connections, expected half of %d", n, most)
	}
	for n := range most / 4 {
		if !proxy.enter(other, false) {
			t.Fatalf("another one's connection %d is refused", n)
		}
	}
	for range most / 4 {
		proxy.leave(greedy)
	}
	if !proxy.enter(greedy, false) {
		t.Fatal("who has ended connections opens no other ones")
	}
}

func TestATerminalThatIsAloneHasAllTheRoom(t *testing.T) {
	const most = 8
	proxy, only := &Proxy{most: most}, &Terminal{}
	for n := range most {
		if !proxy.enter(only, true) {
			t.Fatalf("connection %d of %d is refused", n, most)
		}
	}
	if proxy.enter(only, true) {
		t.Fatalf("more than %d connections are taken", most)
	}
}

func TestATerminalIsAloneWhereNobodyElseIsTaken(t *testing.T) {
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
