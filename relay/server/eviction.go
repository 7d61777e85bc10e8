// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"sync"
)

const (
	maxPending    = 256 // unauthenticated connections
	maxKnownHosts = 256 // hosts that authenticated before
)

// pending holds the unauthenticated connections. If there are too many, it evicts the oldest one of the host with the
// most. So a single host evicts only itself, and many hosts evict none that authenticated before.
type pending struct {
	mutex       sync.Mutex
	connections []*pendingConn // in order of arrival
	of          map[netip.Prefix]int
	known       []netip.Prefix // most recent last
}

type pendingConn struct {
	host  netip.Prefix
	known bool
	end   interface{ Reset() }
}

func (c *pending) enter(from netip.Addr, end interface{ Reset() }) *pendingConn {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.of == nil {
		c.of = make(map[netip.Prefix]int)
	}
	host := hostOf(from)
	newcomer := &pendingConn{host, slices.Contains(c.known, host), end}
	c.connections = append(c.connections, newcomer)
	c.of[newcomer.host]++
	if len(c.connections) > maxPending {
		least := slices.MinFunc(c.connections, func(a, b *pendingConn) int {
			switch {
			case a.known == b.known:
				return c.of[b.host] - c.of[a.host]
			case b.known:
				return -1
			default:
				return 1
			}
		})
		c.remove(least)
		least.end.Reset()
	}
	return newcomer
}

// leave removes a connection that has authenticated (guest) or closed.
func (c *pending) leave(s *pendingConn, guest bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.remove(s)
	if !guest {
		return
	}
	if at := slices.Index(c.known, s.host); at >= 0 {
		c.known = slices.Delete(c.known, at, at+1)
	} else if len(c.known) == maxKnownHosts {
		c.known = slices.Delete(c.known, 0, 1)
	}
	c.known = append(c.known, s.host)
}

func (c *pending) remove(s *pendingConn) {
	for i, each := range c.connections {
		if each == s {
			c.connections = append(c.connections[:i], c.connections[i+1:]...)
			if c.of[s.host]--; c.of[s.host] == 0 {
				delete(c.of, s.host)
			}
			return
		}
	}
}

// hostOf returns the /64 for IPv6, since a host may choose any address in it.
func hostOf(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.WithZone("").Prefix(bits)
	return prefix
}
