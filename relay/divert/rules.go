// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"bicast/relay/internal/reach"
)

// isOpening matches packets that open a connection.
const isOpening = "tcp flags & (fin|syn|rst|ack) == syn"

// openingsCounter is the counter of SYNs redirected to the proxy.
const openingsCounter = "openings"

// ownAddresses matches this host's addresses, and multicast ones. An address without a route may still be reachable
// through the bridge.
const ownAddresses = "fib daddr type { local, broadcast, anycast, multicast }"

// rules returns the table. It redirects only SYNs from a terminal's network that enter by a device towards terminals:
// packets from outside stay with the firewall. Existing connections continue. If no proxy listens, TPROXY does nothing,
// and the next rule decides.
func (o Order) rules() string {
	var text strings.Builder
	rule := func(words string) { fmt.Fprintln(&text, words) }
	rule("table inet " + table + " {")
	writeSet(&text, "except", append(o.Except[:len(o.Except):len(o.Except)], unreachable()...))
	writeSet(&text, "from", o.From)
	writeSet(&text, "relays", hosts(o.Relays))
	rule("counter " + openingsCounter + " {\n}")
	rule("chain prerouting {\ntype filter hook prerouting priority mangle; policy accept;")
	if o.BridgeLink != nil {
		o.BridgeLink.guardUplinks(rule)
	}
	marked := setMark(intercepted) + " accept"
	rule("meta l4proto != tcp accept")
	rule(isOpening + " goto opening")
	rule("socket transparent 1 " + marked)
	rule("}")
	rule("chain opening {")
	rule("iifname != " + o.inside() + " accept")
	if o.BridgeLink != nil {
		rule(ownAddresses + " reject with tcp reset")
	}
	rule(ownAddresses + " accept")
	if o.BridgeLink == nil {
		rule("fib daddr oifname " + o.inside() + " accept") // between terminals
	}
	rule("ip daddr @except4 accept")
	rule("ip6 daddr @except6 accept")
	rule("ip saddr != @from4 accept")
	rule("ip6 saddr != @from6 accept")
	rule("ip saddr @relays4 accept")
	rule("ip6 saddr @relays6 accept")
	if o.Six == 0 {
		rule("meta nfproto ipv6 accept")
	}
	rule(fmt.Sprintf("meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:%d counter name %s %s", o.Four, openingsCounter, marked))
	if o.Six != 0 {
		rule(fmt.Sprintf("meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:%d counter name %s %s", o.Six, openingsCounter, marked))
	}
	switch {
	case o.Block:
		rule("reject with tcp reset")
	case o.BridgeLink != nil && !o.BridgeLink.forwardsIPv6():
		rule("meta nfproto ipv6 reject with tcp reset")
	}
	rule("}")
	if o.BridgeLink != nil {
		o.BridgeLink.dropDuplicates(rule)
		o.BridgeLink.markAnswers(rule)
	}
	rule("}")
	return text.String()
}

// inside returns the set of ingress devices of terminals. Without any, it returns a name that no device can have, so
// that nothing is intercepted.
func (o Order) inside() string {
	devices := o.Inside
	if o.BridgeLink != nil {
		devices = []string{Host(o.BridgeLink.Port)}
	}
	if len(devices) == 0 {
		devices = []string{"/"}
	}
	var names []string
	for _, device := range devices {
		names = append(names, strconv.Quote(device))
	}
	return "{ " + strings.Join(names, ", ") + " }"
}

// unreachable returns the networks that no relay reaches.
func unreachable() (all []netip.Prefix) {
	for _, network := range reach.Never {
		all = append(all, network.Prefix)
	}
	return all
}

func hosts(addresses []netip.Addr) (all []netip.Prefix) {
	for _, address := range addresses {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	return all
}

// writeSet writes the sets of both families; a set may be empty.
func writeSet(to *strings.Builder, name string, of []netip.Prefix) {
	for _, six := range []bool{false, true} {
		var elements []string
		for _, prefix := range of {
			if prefix.Addr().Is6() == six {
				elements = append(elements, prefix.Masked().String())
			}
		}
		kind, family := "ipv4_addr", "4"
		if six {
			kind, family = "ipv6_addr", "6"
		}
		fmt.Fprintf(to, "set %s%s {\ntype %s\nflags interval\nauto-merge\n", name, family, kind)
		if elements != nil {
			fmt.Fprintf(to, "elements = { %s }\n", strings.Join(elements, ", "))
		}
		fmt.Fprintf(to, "}\n")
	}
}
