// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"time"
)

const (
	recentTime  = 10 * time.Minute
	maxNetworks = 1024
	// Gateways are recorded by network: behind a provider's NAT the next connection may have another address.
	networkBits4, networkBits6 = 24, 64
)

// networkOf returns the network that an address is recorded by.
func networkOf(address netip.Addr) netip.Prefix {
	bits := networkBits6
	if address = address.Unmap(); address.Is4() {
		bits = networkBits4
	}
	network, _ := address.WithZone("").Prefix(bits)
	return network
}

// RecentNetworks returns the networks of authenticated gateways that are connected or were within the last ten minutes, in
// order.
func (s *Server) RecentNetworks(now time.Time) (networks []netip.Prefix) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for visit := range s.visits {
		s.recordNetwork(visit.network, now)
	}
	for network, at := range s.networks {
		if now.Sub(at) > recentTime {
			delete(s.networks, network)
			continue
		}
		networks = append(networks, network)
	}
	slices.SortFunc(networks, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return networks
}

// recordNetwork records a network. If there are too many, it drops the least recent one. The caller holds the mutex.
func (s *Server) recordNetwork(network netip.Prefix, now time.Time) {
	if _, known := s.networks[network]; !known && len(s.networks) >= maxNetworks {
		var oldest netip.Prefix
		for each, at := range s.networks {
			if !oldest.IsValid() || at.Before(s.networks[oldest]) {
				oldest = each
			}
		}
		delete(s.networks, oldest)
	}
	s.networks[network] = now
}
