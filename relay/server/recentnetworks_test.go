// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"bicast/internal/ratelog"
)

func TestRecentNetworksAreLimitedInTimeAndNumber(t *testing.T) {
	server := newServer(100, &ratelog.Logger{})
	now := time.Now()
	from := func(text string) netip.Prefix { return networkOf(netip.MustParseAddr(text)) }
	here := &visit{network: from("2a0f::9:1")}
	server.visits[here] = struct{}{}
	server.recordNetwork(from("::ffff:45.0.0.7"), now.Add(-recentTime/2))
	server.recordNetwork(from("45.0.1.7"), now.Add(-2*recentTime))
	expected := []netip.Prefix{netip.MustParsePrefix("45.0.0.0/24"), netip.MustParsePrefix("2a0f::/64")}
	if known := server.RecentNetworks(now); !slices.Equal(known, expected) {
		t.Fatalf("%v, expected %v", known, expected)
	}
	for n := range 2 * maxNetworks {
		server.recordNetwork(from(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}).String()), now.Add(time.Duration(n)))
	}
	known := server.RecentNetworks(now.Add(time.Second))
	if len(known) != maxNetworks || !slices.Contains(known, here.network) || slices.Contains(known, expected[0]) {
		t.Fatalf("got %d networks, expected the newest %d and that of the open connection", len(known), maxNetworks)
	}
}
