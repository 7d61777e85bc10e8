// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"time"
)

const (
	lately     = 10 * time.Minute
	latelyMost = 1024
	// Gateways are known by networks: behind a provider's NAT the next connection may have another address of it.
	lately4, lately6 = 24, 64
)

// networkOf is the one that an address is known by.
func networkOf(address netip.Addr) netip.Prefix {
	bits := lately6
	if address = address.Unmap(); address.Is4() {
		bits = lately4
	}
	network, _ := address.WithZone("").Prefix(bits)
	return network
}

// Lately are the networks from where gateways came within the last ten minutes, or are here, in order. Who showed no certificate of a
// gateway is not among them.
func (s *Server) Lately(now time.Time) (networks []netip.Prefix) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for visit := range s.visits {
		s.came(visit.network, now)
	}
	for network, at := range s.networks {
		if now.Sub(at) > lately {
			delete(s.networks, network)
			continue
		}
		networks = append(networks, network)
	}
	slices.SortFunc(networks, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return networks
}

// came notes a network; of too many the one from where nobody came for longest is forgotten. Under the mutex.
func (s *Server) came(network netip.Prefix, now time.Time) {
	if _, known := s.networks[network]; !known && len(s.networks) >= latelyMost {
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
