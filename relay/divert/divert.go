// SPDX-License-Identifier: Apache-2.0

// Package divert leads new TCP connections of terminals to a proxy on this host, with nftables' TPROXY and a route of its own,
// and says in nft what becomes of them while there is no proxy. Everything is in one table of nft, one rule of routing and
// one table of routes, which are this package's alone. Where a bridge has the terminals, devices towards it, and routes by
// them, are made as well (ground.go).
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
	table  = "bicast-take"
	routes = "45514" // the table of routes, which is "B1CA"
	rank   = "11"    // of the rule: before those that choose uplinks by source

	// Two bits of the packet mark are ours. The other bits belong to other programs, such as mwan3 and VPNs, and stay as they are.
	markMask    = 0x60000000
	intercepted = 0x20000000 // a packet for the proxy
)

// Order is what shall be taken.
type Order struct {
	Four, Six uint16         // ports of the proxy, at 127.0.0.1 and ::1; 0: there is none
	Inside    []string       // the devices by which terminals' packets come; a ground has its own
	From      []netip.Prefix // the networks of terminals
	Relays    []netip.Addr   // the addresses of relays: what a relay sends was relayed already, and is left alone
	Except    []netip.Prefix // destinations, beside this host's own and those that no relay reaches
	Block     bool           // what is not taken although it should be is refused: else it passes
	Ground    *Ground        // devices towards a bridge that has the terminals; nil: this host has them
}

// Diversion is an order that stands.
type Diversion struct {
	name io.Closer // that it has for this namespace
	ends []string  // of the ground
	led  bool      // to the proxy, by routes
	laid string    // of the ground: what its routes depend on
	back []netip.Addr
	ways ways // as they were when the order was written

	rules int // of the table, likewise
}

// Claim is this namespace's one place for a proxy, before anything is changed.
func Claim() (*Diversion, error) {
	name, err := claim.Take("take", "takes connections in this network namespace")
	if err != nil {
		return nil, err
	}
	return &Diversion{name: name}, nil
}

// Write lets an order stand, in the place of the one before, or of what another proxy may have left. The rules change at once,
// for nft takes all or nothing; what makes devices gives those that are new.
func (d *Diversion) Write(order Order) (made []string, err error) {
	if order.Ground != nil {
		if made, err = d.lay(order.Ground); err != nil {
			return nil, err
		}
		d.ends = order.Ground.Ends()
	}
	if err := d.lead(order); err != nil {
		return nil, err
	}
	if d.ways, err = waysThere(); err != nil {
		return nil, err
	}
	if err := nft(removal + order.rules()); err != nil {
		return made, err
	}
	d.rules, err = nftable.Rules(table)
	return made, err
}

// Lost tells what somebody else has taken away; what is written then is written whole. Empty: nothing.
func (d *Diversion) Lost() (string, error) {
	lost := ""
	for _, end := range d.ends {
		if _, err := net.InterfaceByName(end); err != nil {
			lost = "the network device " + end
		}
	}
	ways, err := waysThere()
	if err == nil && ways != d.ways {
		lost = "rules of routing, or routes"
	}
	rules, unseen := nftable.Rules(table)
	if unseen == nil && rules != d.rules {
		lost = "the table " + table + " of nft, or what was in it"
	}
	if lost != "" {
		d.led, d.laid = false, ""
	}
	return lost, errors.Join(err, unseen)
}

// Openings are how many packets that open connections were led to the proxy, since the order was written.
func (d *Diversion) Openings() (uint64, error) {
	packets, err := nftable.Counters(table)
	return packets[counted], err
}

func (d *Diversion) lead(order Order) error {
	if d.led {
		return nil
	}
	for _, family := range families(order.Six != 0) {
		ip(family, "rule", "del", "fwmark", fwmark(intercepted), "lookup", routes) // where one was left
		if err := errors.Join(
			ip(family, "route", "replace", "local", "default", "dev", "lo", "table", routes),
			ip(family, "rule", "add", "fwmark", fwmark(intercepted), "lookup", routes, "priority", rank),
		); err != nil {
			return err
		}
	}
	d.led = true
	return nil
}

// Close undoes the order and gives the place free.
func (d *Diversion) Close() error { return errors.Join(Undo(), d.name.Close()) }

// Undo takes away what stands, whoever wrote it.
func Undo() error {
	err := nft(removal)
	for _, family := range families(true) {
		ip(family, "rule", "del", "fwmark", fwmark(intercepted), "lookup", routes)
		ip(family, "route", "flush", "table", routes)
	}
	return errors.Join(err, lift())
}

// Release undoes what a process left that was killed, and tells whether it had to; it leaves alone what is of one that lives.
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

// left tells whether there is something: without nft and ip nobody has made it.
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

// fwmark is a value of our two bits as `ip rule` takes it.
func fwmark(value uint32) string { return fmt.Sprintf("%#x/%#x", value, uint32(markMask)) }

// setMark is the statement of nft that sets our two bits and keeps all others.
func setMark(value uint32) string {
	return fmt.Sprintf("meta mark set meta mark & %#x | %#x", ^uint32(markMask), value)
}

func families(six bool) []string {
	if six {
		return []string{"-4", "-6"}
	}
	return []string{"-4"}
}

// removal is no error where there is no table.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

func nft(text string) error { return command(text, "nftables", "nft", "-f", "-") }

func ip(words ...string) error { return command("", "iproute2", "ip", words...) }

// batch is many lines for `ip`.
func batch(lines string, options ...string) error {
	return command(lines, "iproute2", "ip", append(options, "-batch", "-")...)
}

// Probe tells why nothing can be taken in this network namespace.
func Probe() error {
	lead := Order{Four: 1, Six: 1, Block: true, Ground: &Ground{Port: "taken", Uplinks: []Uplink{{Port: "uplink"}}}}
	return errors.Join(ip("-Version"), command(lead.rules(), "nftables", "nft", "--check", "-f", "-"))
}

func command(input, of string, name string, words ...string) error {
	_, err := output(input, of, name, words...)
	return err
}

func output(input, of string, name string, words ...string) ([]byte, error) {
	said, err := hostcommand.Run(of, input, name, words...)
	if err != nil {
		return nil, fmt.Errorf("connections cannot be taken: %w", err)
	}
	return said, nil
}
