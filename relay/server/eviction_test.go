// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"testing"
)

type guest struct{ reset bool }

func (g *guest) Reset() { g.reset = true }

// host is one of many.
func host(n int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}) }

func TestOfTooManyStrangersTheHostThatHasMostMakesPlace(t *testing.T) {
	var c crowd
	var alone, first guest
	c.enter(host(1), &alone)
	c.enter(host(2), &first)
	for range mostStrangers - 1 {
		c.enter(host(2), &guest{})
	}
	if !first.reset || alone.reset {
		t.Fatalf("the oldest of the crowd was reset: %v, one by himself: %v; expected the former alone", first.reset, alone.reset)
	}
	if len(c.strangers) != mostStrangers {
		t.Fatalf("%d strangers are here, expected %d", len(c.strangers), mostStrangers)
	}
}

func TestManyHostsCrowdOutNoneThatGuestsCameFrom(t *testing.T) {
	var c crowd
	var gateway, stranger guest
	c.leave(c.enter(host(0), &gateway), true)
	c.leave(c.enter(host(1), &stranger), false)
	c.enter(host(0), &gateway)
	c.enter(host(1), &stranger)
	for n := range 10 * mostStrangers {
		c.enter(host(2+n), &guest{})
	}
	if gateway.reset || !stranger.reset {
		t.Fatalf("who comes from where a guest came from was reset: %v, a stranger: %v; expected the latter alone", gateway.reset, stranger.reset)
	}
	for n := range 2 * mostFamiliar {
		c.leave(c.enter(host(n), &guest{}), true)
	}
	if len(c.familiar) != mostFamiliar {
		t.Fatalf("%d hosts are remembered, expected %d", len(c.familiar), mostFamiliar)
	}
}
