// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/netip"
	"testing"
)

func TestPlanIgnoresUnknownAddresses(t *testing.T) {
	one, inside := &Terminal{}, &Terminal{}
	plan := Plan{
		Terminals: map[netip.Addr]*Terminal{netip.MustParseAddr("192.168.9.2"): one}, Inside: inside,
		Networks: []netip.Prefix{netip.MustParsePrefix("192.168.7.0/24"), netip.MustParsePrefix("fd07::/64")},
	}
	for from, want := range map[string]*Terminal{
		"192.168.9.2": one, "192.168.7.2": inside, "::ffff:192.168.7.2": inside, "fd07::2": inside,
		"192.168.9.3": nil, "45.0.0.2": nil, "2a0f::2": nil,
	} {
		if plan.terminal(netip.MustParseAddr(from)) != want {
			t.Errorf("a connection from %s is another one's", from)
		}
	}
}
