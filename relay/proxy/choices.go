// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"maps"
	"net/netip"
	"slices"
)

// Choice is by which relays destinations are reached.
type Choice struct {
	Relays   []*Relay // the first that can be reached
	Direct   bool     // not by a relay
	Together bool     // all of them: connections are spread over them
}

// Choices are by prefix: the longest counts.
type Choices struct {
	by      map[netip.Prefix]Choice
	lengths []int // of those, the longest first
}

// Chosen are choices by their prefixes.
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
