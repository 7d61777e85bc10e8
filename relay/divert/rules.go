// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"bicast/relay/internal/reach"
)

// opens is of a packet that opens a connection.
const opens = "tcp flags & (fin|syn|rst|ack) == syn"

// counted is the counter of packets that open connections and were led to the proxy.
const counted = "openings"

// own are this host's addresses, and those of many. Of another one the host may know no route: a bridge has it.
const own = "fib daddr type { local, broadcast, anycast, multicast }"

// rules are the table. Only packets that open connections are led to the proxy, and of those only what comes from a terminal's
// network by a device towards terminals: what strangers send to terminals stays with the firewall. What was there before
// goes on as it did. Without a proxy that listens TPROXY does nothing and the next rule decides.
func (o Order) rules() string {
	var text strings.Builder
	rule := func(words string) { fmt.Fprintln(&text, words) }
	rule("table inet " + table + " {")
	writeSet(&text, "except", append(o.Except[:len(o.Except):len(o.Except)], never()...))
	writeSet(&text, "from", o.From)
	writeSet(&text, "relays", hosts(o.Relays))
	rule("counter " + counted + " {\n}")
	rule("chain prerouting {\ntype filter hook prerouting priority mangle; policy accept;")
	if o.Ground != nil {
		o.Ground.guard(rule)
	}
	marked := setMark(intercepted) + " accept"
	rule("meta l4proto != tcp accept")
	rule(opens + " goto opening")
	rule("socket transparent 1 " + marked)
	rule("}")
	rule("chain opening {")
	rule("iifname != " + o.inside() + " accept")
	if o.Ground != nil {
		rule(own + " reject with tcp reset")
	}
	rule(own + " accept")
	if o.Ground == nil {
		rule("fib daddr oifname " + o.inside() + " accept") // from one terminal to another
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
	rule(fmt.Sprintf("meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:%d counter name %s %s", o.Four, counted, marked))
	if o.Six != 0 {
		rule(fmt.Sprintf("meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:%d counter name %s %s", o.Six, counted, marked))
	}
	switch {
	case o.Block:
		rule("reject with tcp reset")
	case o.Ground != nil && !o.Ground.passes6():
		rule("meta nfproto ipv6 reject with tcp reset")
	}
	rule("}")
	if o.Ground != nil {
		o.Ground.aside(rule)
		o.Ground.answers(rule)
	}
	rule("}")
	return text.String()
}

// inside is the set of devices by which terminals' packets come. Where nobody named any, it has a name that no device can have,
// so that nothing is intercepted.
func (o Order) inside() string {
	devices := o.Inside
	if o.Ground != nil {
		devices = []string{Host(o.Ground.Port)}
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

// never are the networks that no relay reaches.
func never() (all []netip.Prefix) {
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

// writeSet is of both families; a set may be empty.
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
