// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"cmp"
	"net/netip"
	"slices"
)

// Plan says whose connections to intercept and where they go. It is replaced as a whole.
type Plan struct {
	Terminals map[netip.Addr]*Terminal // by address
	Inside    *Terminal                // every other address in Networks; nil: none
	Networks  []netip.Prefix
	Relays    []*Relay
	Choices   *Choices
	Undecided *Undecided
	Block     bool // reset what cannot be relayed; otherwise connect directly
}

// terminal returns the terminal with an address, or nil if the address belongs to none.
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

// alone tells whether this is the only terminal.
func (p *Plan) alone(terminal *Terminal) bool {
	for _, each := range p.Terminals {
		if each != terminal {
			return false
		}
	}
	return p.Inside == nil || p.Inside == terminal
}

// paths returns the relays to try, the best first. directly means that the choice is to use none.
func (p *Plan) paths(terminal *Terminal, to netip.AddrPort) (paths []*relayPath, directly bool) {
	choice, chosen := p.Choices.of(to.Addr())
	relays := choice.Relays
	if !chosen {
		p.Undecided.note(to)
		relays = p.fastest()
	}
	for _, relay := range relays {
		if !relay.Draining() {
			paths = append(paths, terminal.to(relay))
		}
	}
	if choice.Together {
		slices.SortStableFunc(paths, func(a, b *relayPath) int { return cmp.Compare(a.live.Load(), b.live.Load()) })
	}
	return paths, choice.Direct
}

// fastest returns all relays by connection setup time; those never reached come last.
func (p *Plan) fastest() []*Relay {
	return slices.SortedStableFunc(slices.Values(p.Relays), func(a, b *Relay) int {
		first, second := a.usual.Load(), b.usual.Load()
		if (first == 0) != (second == 0) {
			return cmp.Compare(second, first)
		}
		return cmp.Compare(first, second)
	})
}
