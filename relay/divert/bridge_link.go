// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// BridgeLink connects this host and a bridge that has the terminals by veth pairs. One end of each pair is a port of the
// bridge:
//
//	terminals ─ bridge ─ PORT ═ PORT-h           intercepted packets and the proxy's answers; others return here
//	            bridge ─ uplink ═ uplink-h       what the proxy sends, from addresses of this host
//
// The bridge recognizes traffic by addresses alone.
type BridgeLink struct {
	Port      string
	Uplinks   []Uplink
	Terminals []netip.Addr // behind the bridge
}

// Uplink is an uplink of the bridge.
type Uplink struct {
	Port     string
	Gateways []netip.Prefix // the bridge's address with its prefix length; at most one per family
	Locals   []netip.Addr   // addresses of this host that speak for terminals
}

// Host returns the host's end of a pair.
func Host(port string) string { return port + "-h" }

const (
	// Answering is the mark of the proxy's packets to terminals, within our two bits.
	Answering = 0x40000000

	hostMAC            = "02:62:69:63:61:73" // of every host end; fixed, so that the bridge need not learn it
	routeProtocol      = 202                 // protocol number of our routes and rules
	terminalTable      = 45515               // routing table back to terminals; those of the uplinks follow
	bridgeLinkPriority = "12"                // the kernel applies these rules right after rulePriority, before the host's own
	fallback           = 45514 + 256         // routing table to terminals without another route
	fallbackPriority   = "32768"             // the kernel applies this rule last, after tables main (32766) and default (32767)

	nextHop, nextHop6 = "192.0.0.8", "fe80::8" // RFC 7600: the next hop towards the bridge, an address that no host has
)

// Ends returns all ends at the host.
func (g *BridgeLink) Ends() []string {
	all := []string{Host(g.Port)}
	for _, uplink := range g.Uplinks {
		all = append(all, Host(uplink.Port))
	}
	return all
}

// guardUplinks protects the uplink devices: strangers that send to the addresses which speak for terminals reach no
// listener.
func (g *BridgeLink) guardUplinks(rule func(string)) {
	var uplinks []string
	for _, uplink := range g.Uplinks {
		uplinks = append(uplinks, strconv.Quote(Host(uplink.Port)))
	}
	rule("iifname { " + strings.Join(uplinks, ", ") + " } goto strangers")
	rule(fmt.Sprintf("iifname != %q accept", Host(g.Port)))
}

// dropDuplicates handles bridges in userspace, where the kernel receives the ports' packets, too: it drops copies of
// packets to the addresses that speak for terminals. Otherwise each answer would come twice, once on a wrong device.
func (g *BridgeLink) dropDuplicates(rule func(string)) {
	rule("chain aside {\ntype filter hook prerouting priority raw; policy accept;")
	for _, uplink := range g.Uplinks {
		for _, gateway := range uplink.Gateways {
			family := map[bool]string{false: "ip", true: "ip6"}[gateway.Addr().Is6()]
			rule(fmt.Sprintf("%s daddr %v iifname != %q drop", family, gateway.Masked(), Host(uplink.Port)))
		}
	}
	rule("}")
}

// markAnswers marks packets to terminals, also those that nft itself sends for others.
func (g *BridgeLink) markAnswers(rule func(string)) {
	rule("chain strangers {")
	rule("meta l4proto tcp tcp flags & (syn|ack) == syn drop")
	rule("meta l4proto { tcp, icmp, icmpv6 } accept")
	rule("drop\n}")
	rule("chain output {\ntype route hook output priority mangle; policy accept;")
	rule("meta l4proto != tcp accept")
	for _, family := range []string{"ip daddr @from4", "ip6 daddr @from6"} {
		rule(fmt.Sprintf("%s meta mark & %#x != %#x fib saddr type != local %s", family, markMask, Answering, setMark(Answering)))
	}
	rule("}")
}

// forwardsIPv6 tells whether the host forwards IPv6 packets that are not intercepted back to the bridge.
func (g *BridgeLink) forwardsIPv6() bool {
	if _, err := os.Stat(sysctl("ipv6", Host(g.Port), "force_forwarding")); err == nil {
		return true
	}
	all, err := os.ReadFile(sysctl("ipv6", "all", "forwarding"))
	return err == nil && strings.TrimSpace(string(all)) == "1"
}

// createBridgeLink creates the missing devices and routes, and removes devices of other bridge links.
func (d *Diversion) createBridgeLink(g *BridgeLink) (made []string, err error) {
	there, err := links()
	if err != nil {
		return nil, err
	}
	if err := there.removeAllBut(g.Ends()); err != nil {
		return nil, err
	}
	for _, port := range append([]string{g.Port}, ports(g.Uplinks)...) {
		fresh, err := there.pair(port, port == g.Port)
		if err != nil {
			return nil, err
		}
		if fresh {
			made = append(made, port)
		}
	}
	for _, uplink := range g.Uplinks {
		if err := uplink.address(); err != nil {
			return nil, err
		}
	}
	fresh := g.String() != d.routesFor || len(made) > 0
	if fresh {
		d.fallback = nil // they go with the other routes
	}
	for _, family := range families(g.six()) {
		lines := g.fallbackRoutes(family, d.fallback)
		if fresh {
			lines = g.routes(family) + lines
		}
		if err := batch(lines, family); err != nil {
			return nil, err
		}
	}
	d.routesFor, d.fallback = g.String(), g.Terminals
	return made, nil
}

// fallbackRoutes returns `ip` lines with routes to terminals. Without a route nft cannot refuse their connections.
func (g *BridgeLink) fallbackRoutes(family string, before []netip.Addr) string {
	var text strings.Builder
	write := func(verb string, of, but []netip.Addr) {
		for _, each := range of {
			if each.Is6() == (family == "-6") && !slices.Contains(but, each) {
				fmt.Fprintf(&text, "route %s %v via %s dev %s onlink table %d protocol %d\n",
					verb, each, bridge(family), Host(g.Port), fallback, routeProtocol)
			}
		}
	}
	write("add", g.Terminals, before)
	write("del", before, g.Terminals)
	return text.String()
}

func bridge(family string) string {
	if family == "-6" {
		return nextHop6
	}
	return nextHop
}

func (g *BridgeLink) six() bool {
	return slices.ContainsFunc(g.Uplinks, func(u Uplink) bool {
		return slices.ContainsFunc(u.Gateways, func(gateway netip.Prefix) bool { return gateway.Addr().Is6() })
	})
}

// routes returns `ip` lines: packets from an uplink's addresses leave by that uplink or not at all.
func (g *BridgeLink) routes(family string) string {
	var text strings.Builder
	write := func(format string, values ...any) {
		fmt.Fprintf(&text, format+" protocol %d\n", append(values, routeProtocol)...)
	}
	write("rule flush")
	write("route flush table all")
	write("route add default via %s dev %s onlink table %d", bridge(family), Host(g.Port), terminalTable)
	write("rule add fwmark %s lookup %d priority %s", fwmark(Answering), terminalTable, bridgeLinkPriority)
	write("rule add iif %s lookup %d priority %s", Host(g.Port), terminalTable, bridgeLinkPriority)
	write("rule add lookup %d priority %s", fallback, fallbackPriority)
	for i, uplink := range g.Uplinks {
		for _, gateway := range uplink.Gateways {
			if gateway.Addr().Is6() != (family == "-6") {
				continue
			}
			own := terminalTable + 1 + i
			write("route add %v dev %s table %d", gateway.Masked(), Host(uplink.Port), own)
			write("route add default via %v dev %s table %d", gateway.Addr(), Host(uplink.Port), own)
			write("route add unreachable default metric 4278198272 table %d", own)
			write("rule add from %v lookup %d priority %s", gateway.Masked(), own, bridgeLinkPriority)
		}
	}
	return text.String()
}

func ports(uplinks []Uplink) (all []string) {
	for _, uplink := range uplinks {
		all = append(all, uplink.Port)
	}
	return all
}

// String returns what the routes depend on.
func (g *BridgeLink) String() string {
	text := g.Port
	for _, uplink := range g.Uplinks {
		text += fmt.Sprint(" ", uplink.Port, uplink.Gateways)
	}
	return text
}

// removeBridgeLink removes the devices, rules and routes of every bridge link.
func removeBridgeLink() error {
	for _, family := range families(true) {
		ip(family, "rule", "flush", "protocol", strconv.Itoa(routeProtocol))
		ip(family, "route", "flush", "table", "all", "protocol", strconv.Itoa(routeProtocol))
	}
	there, err := links()
	if err != nil {
		return err
	}
	return there.removeAllBut(nil)
}
