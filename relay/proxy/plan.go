// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"cmp"
	"net/netip"
	"slices"
)

// Plan is whose connections are taken, and by what they go. It is replaced as a whole.
type Plan struct {
	Terminals map[netip.Addr]*Terminal // by the addresses that they have
	Inside    *Terminal                // all who have an address of Networks; nil: nobody has
	Networks  []netip.Prefix
	Relays    []*Relay
	Choices   *Choices
	Sought    *Sought
	Block     bool // what cannot be relayed is reset; else it is connected by this host
}

// terminal is whose connection one from an address is; nil: nobody's, whatever led it here.
func (p *Plan) terminal(at netip.Addr) *Terminal {
	at = at.Unmap()
	if one := p.Terminals[at]; one != nil {
		return one
	}
	if slices.ContainsFunc(p.Networks, func(network netip.Prefix) bool { return network.Contains(at) }) {
		return p.Inside
	}
	return nil
}

// alone tells whether nobody but this one is taken.
func (p *Plan) alone(terminal *Terminal) bool {
	for _, each := range p.Terminals {
		if each != terminal {
			return false
		}
	}
	return p.Inside == nil || p.Inside == terminal
}

// roads are those to try, the best first; directly: it is chosen that there is none.
func (p *Plan) roads(terminal *Terminal, to netip.AddrPort) (roads []*road, directly bool) {
	choice, chosen := p.Choices.of(to.Addr())
	relays := choice.Relays
	if !chosen {
		p.Sought.note(to)
		relays = p.fastest()
	}
	for _, relay := range relays {
		if !relay.Draining() {
			roads = append(roads, terminal.to(relay))
		}
	}
	if choice.Together {
		slices.SortStableFunc(roads, func(a, b *road) int { return cmp.Compare(a.live.Load(), b.live.Load()) })
	}
	return roads, choice.Direct
}

// fastest are all relays; those that were never reached come last.
func (p *Plan) fastest() []*Relay {
	return slices.SortedStableFunc(slices.Values(p.Relays), func(a, b *Relay) int {
		first, second := a.usual.Load(), b.usual.Load()
		if (first == 0) != (second == 0) {
			return cmp.Compare(second, first)
		}
		return cmp.Compare(first, second)
	})
}
