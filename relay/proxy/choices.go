// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"maps"
	"net/netip"
	"slices"
)

// Choice says how to reach destinations.
type Choice struct {
	Relays   []*Relay // in order of preference
	Direct   bool     // without a relay
	Together bool     // spread connections over all relays
}

// Choices maps prefixes to choices; the longest match counts.
type Choices struct {
	by      map[netip.Prefix]Choice
	lengths []int // prefix lengths, longest first
}

// Chosen returns choices by prefix.
func Chosen(by map[netip.Prefix]Choice) *Choices {
	lengths := map[int]bool{}
	for prefix := range by {
		lengths[prefix.Bits()] = true
	}
	c := &Choices{by: by, lengths: slices.Sorted(maps.Keys(lengths))}
	slices.Reverse(c.lengths)
	return c
}

func (c *Choices) of(to netip.Addr) (Choice, bool) {
	to = to.Unmap()
	for _, length := range c.lengths {
		if prefix, err := to.Prefix(length); err == nil {
			if choice, found := c.by[prefix]; found {
				return choice, true
			}
		}
	}
	return Choice{}, false
}
