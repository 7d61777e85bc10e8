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

// Ground is how this host and a bridge that has the terminals are connected, by pairs of devices whose one end is the bridge's:
//
//	terminals ─ bridge ─ PORT ═ PORT-h           what is taken, and the proxy's answers; untaken, it goes back there
//	            bridge ─ uplink ═ uplink-h       what the proxy sends, from addresses of this host
//
// The bridge has the other ends as ports, and knows what is whose by addresses alone.
type Ground struct {
	Port      string
	Uplinks   []Uplink
	Terminals []netip.Addr // that are behind the bridge
}

// Uplink is one of the bridge's.
type Uplink struct {
	Port     string
	Gateways []netip.Prefix // the bridge's address there, with the length of the network; one of a family at most
	Locals   []netip.Addr   // by which this host speaks for terminals
}

// Host is the host's end of a pair.
func Host(port string) string { return port + "-h" }

const (
	// Answering is the mark of what the proxy sends to terminals, within our two bits.
	Answering = 0x40000000

	hostMAC = "02:62:69:63:61:73" // of all ends at the host, which are known by it: the bridge learns nothing, and asks nobody
	origin  = 202                 // of our routes and rules: what `ip` calls protocol
	first   = 45515               // the table of routes back to terminals; those of uplinks are behind it
	here    = "12"                // the priority of rules
	back    = 45514 + 256         // the table of routes to terminals for what has no other way
	last    = "32768"             // the priority of its rule

	nowhere, nowhere6 = "192.0.0.8", "fe80::8" // RFC 7600: nobody looks at where frames to the bridge go
)

// Ends are all at the host.
func (g *Ground) Ends() []string {
	all := []string{Host(g.Port)}
	for _, uplink := range g.Uplinks {
		all = append(all, Host(uplink.Port))
	}
	return all
}

// guard is for the devices: strangers, who come by the uplinks to where this host speaks for terminals, find nobody
// there who listens.
func (g *Ground) guard(rule func(string)) {
	var uplinks []string
	for _, uplink := range g.Uplinks {
		uplinks = append(uplinks, strconv.Quote(Host(uplink.Port)))
	}
	rule("iifname { " + strings.Join(uplinks, ", ") + " } goto strangers")
	rule(fmt.Sprintf("iifname != %q accept", Host(g.Port)))
}

// aside is of a bridge in userspace, beside which the kernel hears the ports, too: what is for the addresses by which this host
// speaks for terminals comes by the bridge alone. Else each answer would come twice, and once by a device where nobody waits.
func (g *Ground) aside(rule func(string)) {
	rule("chain aside {\ntype filter hook prerouting priority raw; policy accept;")
	for _, uplink := range g.Uplinks {
		for _, gateway := range uplink.Gateways {
			family := map[bool]string{false: "ip", true: "ip6"}[gateway.Addr().Is6()]
			rule(fmt.Sprintf("%s daddr %v iifname != %q drop", family, gateway.Masked(), Host(uplink.Port)))
		}
	}
	rule("}")
}

// answers lead by the mark, also what nft itself says to terminals in the name of others.
func (g *Ground) answers(rule func(string)) {
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

// passes6 tells whether the host sends IPv6 back that is not taken.
func (g *Ground) passes6() bool {
	if _, err := os.Stat(sysctl("ipv6", Host(g.Port), "force_forwarding")); err == nil {
		return true
	}
	all, err := os.ReadFile(sysctl("ipv6", "all", "forwarding"))
	return err == nil && strings.TrimSpace(string(all)) == "1"
}

// lay makes what of the ground is not there, and takes away what is no part of it.
func (d *Diversion) lay(g *Ground) (made []string, err error) {
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
	fresh := g.String() != d.laid || len(made) > 0
	if fresh {
		d.back = nil // which goes with all other routes
	}
	for _, family := range families(g.six()) {
		lines := g.backs(family, d.back)
		if fresh {
			lines = g.routes(family) + lines
		}
		if err := batch(lines, family); err != nil {
			return nil, err
		}
	}
	d.laid, d.back = g.String(), g.Terminals
	return made, nil
}

// backs are the lines for `ip` by which a host that knows no way to terminals has one: nft refuses nobody without.
func (g *Ground) backs(family string, before []netip.Addr) string {
	var text strings.Builder
	say := func(verb string, of, but []netip.Addr) {
		for _, each := range of {
			if each.Is6() == (family == "-6") && !slices.Contains(but, each) {
				fmt.Fprintf(&text, "route %s %v via %s dev %s onlink table %d protocol %d\n",
					verb, each, bridge(family), Host(g.Port), back, origin)
			}
		}
	}
	say("add", g.Terminals, before)
	say("del", before, g.Terminals)
	return text.String()
}

func bridge(family string) string {
	if family == "-6" {
		return nowhere6
	}
	return nowhere
}

func (g *Ground) six() bool {
	return slices.ContainsFunc(g.Uplinks, func(u Uplink) bool {
		return slices.ContainsFunc(u.Gateways, func(gateway netip.Prefix) bool { return gateway.Addr().Is6() })
	})
}

// routes are the lines for `ip`: each uplink's addresses leave by it or not at all.
func (g *Ground) routes(family string) string {
	var text strings.Builder
	say := func(format string, values ...any) {
		fmt.Fprintf(&text, format+" protocol %d\n", append(values, origin)...)
	}
	say("rule flush")
	say("route flush table all")
	say("route add default via %s dev %s onlink table %d", bridge(family), Host(g.Port), first)
	say("rule add fwmark %s lookup %d priority %s", fwmark(Answering), first, here)
	say("rule add iif %s lookup %d priority %s", Host(g.Port), first, here)
	say("rule add lookup %d priority %s", back, last)
	for i, uplink := range g.Uplinks {
		for _, gateway := range uplink.Gateways {
			if gateway.Addr().Is6() != (family == "-6") {
				continue
			}
			own := first + 1 + i
			say("route add %v dev %s table %d", gateway.Masked(), Host(uplink.Port), own)
			say("route add default via %v dev %s table %d", gateway.Addr(), Host(uplink.Port), own)
			say("route add unreachable default metric 4278198272 table %d", own)
			say("rule add from %v lookup %d priority %s", gateway.Masked(), own, here)
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

// String is what routes depend on.
func (g *Ground) String() string {
	text := g.Port
	for _, uplink := range g.Uplinks {
		text += fmt.Sprint(" ", uplink.Port, uplink.Gateways)
	}
	return text
}

// lift takes away all of whatever ground is there.
func lift() error {
	for _, family := range families(true) {
		ip(family, "rule", "flush", "protocol", strconv.Itoa(origin))
		ip(family, "route", "flush", "table", "all", "protocol", strconv.Itoa(origin))
	}
	there, err := links()
	if err != nil {
		return err
	}
	return there.removeAllBut(nil)
}
