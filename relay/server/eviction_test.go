// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"testing"
)

type fakeEnd struct{ reset bool }

func (g *fakeEnd) Reset() { g.reset = true }

// host returns the n-th host.
func host(n int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}) }

func TestPendingEvictsTheHostWithMostConnections(t *testing.T) {
	var c pending
	var alone, first fakeEnd
	c.enter(host(1), &alone)
	c.enter(host(2), &first)
	for range maxPending - 1 {
		c.enter(host(2), &fakeEnd{})
	}
	if !first.reset || alone.reset {
		t.Fatalf("the oldest of many was reset: %v, the single one: %v; expected only the former", first.reset, alone.reset)
	}
	if len(c.connections) != maxPending {
		t.Fatalf("%d connections are pending, expected %d", len(c.connections), maxPending)
	}
}

func TestPendingKeepsKnownHosts(t *testing.T) {
	var c pending
	var gateway, stranger fakeEnd
	c.leave(c.enter(host(0), &gateway), true)
	c.leave(c.enter(host(1), &stranger), false)
	c.enter(host(0), &gateway)
	c.enter(host(1), &stranger)
	for n := range 10 * maxPending {
		c.enter(host(2+n), &fakeEnd{})
	}
	if gateway.reset || !stranger.reset {
		t.Fatalf("the known host was reset: %v, the unknown one: %v; expected only the latter", gateway.reset, stranger.reset)
	}
	for n := range 2 * maxKnownHosts {
		c.leave(c.enter(host(n), &fakeEnd{}), true)
	}
	if len(c.known) != maxKnownHosts {
		t.Fatalf("%d hosts are remembered, expected %d", len(c.known), maxKnownHosts)
	}
}
