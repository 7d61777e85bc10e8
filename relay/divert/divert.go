// SPDX-License-Identifier: Apache-2.0

// Package divert redirects new TCP connections of terminals to a proxy on this host, with nftables' TPROXY and a route
// of its own. nft also decides what happens to them without a proxy. Everything is in one nft table, one routing rule
// and one routing table, used by this package alone. If a bridge has the terminals, it also makes devices towards the
// bridge (bridge_link.go).
package divert

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"

	"bicast/internal/claim"
	"bicast/internal/hostcommand"
	"bicast/internal/nftable"
)

const (
	table        = "bicast-take"
	routeTable   = "45514" // routing table number: "B1CA"
	rulePriority = "11"    // priority of the rule: before those that select uplinks by source

	// Two bits of the packet mark are ours. The others belong to other programs, such as mwan3 and VPNs, and stay
	// unchanged.
	markMask    = 0x60000000
	intercepted = 0x20000000 // a packet for the proxy
)

// Order says which connections to intercept.
type Order struct {
	Four, Six  uint16         // ports of the proxy at 127.0.0.1 and ::1; 0: none
	Inside     []string       // ingress devices of terminals; a bridge link has its own
	From       []netip.Prefix // the networks of terminals
	Relays     []netip.Addr   // packets from relays were relayed already, and pass
	Except     []netip.Prefix // destinations to skip besides this host's own and those no relay reaches
	Block      bool           // refuse what cannot be intercepted; otherwise it passes
	BridgeLink *BridgeLink    // devices towards a bridge with the terminals; nil: this host is their router
}

// Diversion is the order in force.
type Diversion struct {
	name      io.Closer    // claim on this namespace
	ends      []string     // devices of the bridge link
	routed    bool         // the routes to the proxy are set
	routesFor string       // bridge link that the current routes were made for
	fallback  []netip.Addr // with fallback routes
	routing   routing      // routing when the order was written

	rules int // of the table, when the order was written
}

// Claim claims the interception of this namespace, before anything is changed.
func Claim() (*Diversion, error) {
	name, err := claim.Take("take", "intercepts connections in this network namespace")
	if err != nil {
		return nil, err
	}
	return &Diversion{name: name}, nil
}

// Write puts an order in force. It replaces the previous one, or what another proxy left. nft applies the rules
// atomically. made lists new devices.
func (d *Diversion) Write(order Order) (made []string, err error) {
	if order.BridgeLink != nil {
		if made, err = d.createBridgeLink(order.BridgeLink); err != nil {
			return nil, err
		}
		d.ends = order.BridgeLink.Ends()
	}
	if err := d.redirect(order); err != nil {
		return nil, err
	}
	if d.routing, err = readRouting(); err != nil {
		return nil, err
	}
	if err := nft(removal + order.rules()); err != nil {
		return made, err
	}
	d.rules, err = nftable.Rules(table)
	return made, err
}

// Lost names what another program has removed, or returns "". The next Write restores everything.
func (d *Diversion) Lost() (string, error) {
	lost := ""
	for _, end := range d.ends {
		if _, err := net.InterfaceByName(end); err != nil {
			lost = "the network device " + end
		}
	}
	routing, err := readRouting()
	if err == nil && routing != d.routing {
		lost = "routing rules or routes"
	}
	rules, unseen := nftable.Rules(table)
	if unseen == nil && rules != d.rules {
		lost = "the nft table " + table + ", or some of its rules"
	}
	if lost != "" {
		d.routed, d.routesFor = false, ""
	}
	return lost, errors.Join(err, unseen)
}

// Openings returns how many SYNs were redirected to the proxy since the order was written.
func (d *Diversion) Openings() (uint64, error) {
	packets, err := nftable.Counters(table)
	return packets[openingsCounter], err
}

func (d *Diversion) redirect(order Order) error {
	if d.routed {
		return nil
	}
	for _, family := range families(order.Six != 0) {
		ip(family, "rule", "del", "fwmark", fwmark(intercepted), "lookup", routeTable) // left by a previous run
		if err := errors.Join(
			ip(family, "route", "replace", "local", "default", "dev", "lo", "table", routeTable),
			ip(family, "rule", "add", "fwmark", fwmark(intercepted), "lookup", routeTable, "priority", rulePriority),
		); err != nil {
			return err
		}
	}
	d.routed = true
	return nil
}

// Close undoes the order and releases the claim.
func (d *Diversion) Close() error { return errors.Join(Undo(), d.name.Close()) }

// Undo removes everything, whichever process made it.
func Undo() error {
	err := nft(removal)
	for _, family := range families(true) {
		ip(family, "rule", "del", "fwmark", fwmark(intercepted), "lookup", routeTable)
		ip(family, "route", "flush", "table", routeTable)
	}
	return errors.Join(err, removeBridgeLink())
}

// Release undoes what a killed process left, and tells whether there was anything. It does nothing while a live one has
// the claim.
func Release() (released bool, err error) {
	place, err := Claim()
	if errors.Is(err, claim.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if left, err := left(); err != nil || !left {
		return false, errors.Join(err, place.name.Close())
	}
	return true, place.Close()
}

// left tells whether anything is there. Without nft and ip nothing can be.
func left() (bool, error) {
	switch err := nft("list table inet " + table); {
	case errors.Is(err, exec.ErrNotFound):
		return false, nil
	case err == nil:
		return true, nil
	}
	there, err := links()
	return slices.ContainsFunc(there, link.ours), err
}

// fwmark formats a value of our two bits for `ip rule`.
func fwmark(value uint32) string { return fmt.Sprintf("%#x/%#x", value, uint32(markMask)) }

// setMark returns the nft statement that sets our two bits and keeps all others.
func setMark(value uint32) string {
	return fmt.Sprintf("meta mark set meta mark & %#x | %#x", ^uint32(markMask), value)
}

func families(six bool) []string {
	if six {
		return []string{"-4", "-6"}
	}
	return []string{"-4"}
}

// removal deletes the table; adding it first avoids an error if there is none.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

func nft(text string) error { return command(text, "nftables", "nft", "-f", "-") }

func ip(words ...string) error { return command("", "iproute2", "ip", words...) }

// batch runs many lines with `ip`.
func batch(lines string, options ...string) error {
	return command(lines, "iproute2", "ip", append(options, "-batch", "-")...)
}

// Probe returns why this network namespace cannot intercept, or nil.
func Probe() error {
	redirect := Order{Four: 1, Six: 1, Block: true, BridgeLink: &BridgeLink{Port: "taken", Uplinks: []Uplink{{Port: "uplink"}}}}
	return errors.Join(ip("-Version"), command(redirect.rules(), "nftables", "nft", "--check", "-f", "-"))
}

func command(input, of string, name string, words ...string) error {
	_, err := output(input, of, name, words...)
	return err
}

func output(input, of string, name string, words ...string) ([]byte, error) {
	said, err := hostcommand.Run(of, input, name, words...)
	if err != nil {
		return nil, fmt.Errorf("cannot intercept connections: %w", err)
	}
	return said, nil
}
