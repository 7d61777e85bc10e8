// Package divert leads new TCP connections of terminals to a proxy on this host, with nftables' TPROXY and a route of its own,
// and says in nft what becomes of them while there is no proxy. Everything is in one table of nft, one rule of routing and
// one table of routes, which are this package's alone.
package divert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	table   = "bicast-take"
	mark    = 0xb1ca57
	routes  = "45514" // the table of routes, which is "B1CA"
	rank    = "11"    // of the rule: before those that choose uplinks by source
	atMost  = 10 * time.Second
	claimed = "@bicast-take" // the name that one process in a network namespace has
)

// Order is what shall be taken.
type Order struct {
	Port   uint16         // of the proxy, at 127.0.0.1 and ::1
	From   []netip.Prefix // terminals; none: whoever sends through this host
	Except []netip.Prefix // destinations, beside this host's own
	Block  bool           // what is not taken although it should be is refused: else it passes
	Six    bool           // there is a proxy for IPv6
}

// Diverted is an order that stands.
type Diverted struct{ claim net.Listener }

// Claim is this namespace's one place for a proxy, before anything is changed.
func Claim() (*Diverted, error) {
	claim, err := net.Listen("unix", claimed)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, errors.New("another `bicast-agent take` runs in this network namespace: end that one first")
	}
	if err != nil {
		return nil, err
	}
	return &Diverted{claim}, nil
}

// Write lets an order stand, in the place of what another proxy may have left: at once, for nft takes all or nothing.
func (d *Diverted) Write(order Order) error {
	for _, family := range families(order.Six) {
		ip(family, "rule", "del", "fwmark", strconv.Itoa(mark), "lookup", routes) // where one was left
		if err := errors.Join(
			ip(family, "route", "replace", "local", "default", "dev", "lo", "table", routes),
			ip(family, "rule", "add", "fwmark", strconv.Itoa(mark), "lookup", routes, "priority", rank),
		); err != nil {
			return errors.Join(err, Undo())
		}
	}
	if err := nft(removal + order.rules()); err != nil {
		return errors.Join(err, Undo())
	}
	return nil
}

// Close undoes the order and gives the place free.
func (d *Diverted) Close() error { return errors.Join(Undo(), d.claim.Close()) }

// Undo takes away what stands, whoever wrote it.
func Undo() error {
	err := nft(removal)
	for _, family := range families(true) {
		ip(family, "rule", "del", "fwmark", strconv.Itoa(mark), "lookup", routes)
		ip(family, "route", "flush", "table", routes)
	}
	return err
}

func families(six bool) []string {
	if six {
		return []string{"-4", "-6"}
	}
	return []string{"-4"}
}

// removal is no error where there is no table.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

// opens is of a packet that opens a connection.
const opens = "tcp flags & (fin|syn|rst|ack) == syn"

// rules are the table. Only packets that open connections are led to the proxy: what was there before goes on as it did.
// Without a proxy that listens TPROXY does nothing and the next rule decides.
func (o Order) rules() string {
	var text strings.Builder
	fmt.Fprintf(&text, "table inet %s {\n", table)
	writeSet(&text, "except", o.Except)
	writeSet(&text, "from", o.From)
	fmt.Fprintf(&text, "chain prerouting {\ntype filter hook prerouting priority mangle; policy accept;\n")
	rule := func(words string) { fmt.Fprintln(&text, words) }
	marked := fmt.Sprintf("meta mark set %#x accept", mark)
	rule("meta l4proto != tcp accept")
	rule(opens + " goto opening")
	rule("socket transparent 1 " + marked)
	rule("}")
	rule("chain opening {")
	rule("fib daddr type != unicast accept")
	rule("ip daddr @except4 accept")
	rule("ip6 daddr @except6 accept")
	if len(o.From) > 0 {
		rule("ip saddr != @from4 accept")
		rule("ip6 saddr != @from6 accept")
	}
	if !o.Six {
		rule("meta nfproto ipv6 accept")
	}
	rule(fmt.Sprintf("meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:%d %s", o.Port, marked))
	if o.Six {
		rule(fmt.Sprintf("meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:%d %s", o.Port, marked))
	}
	if o.Block {
		rule("reject with tcp reset")
	}
	rule("}\n}")
	return text.String()
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

func nft(text string) error { return command(text, "nftables", "nft", "-f", "-") }

func ip(words ...string) error { return command("", "iproute2", "ip", words...) }

func command(input, of string, name string, words ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	process := exec.CommandContext(ctx, name, words...)
	process.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	process.Stderr = &said
	err := process.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("connections cannot be taken: there is no %s on this host; install the package %s", name, of)
	case err != nil:
		return fmt.Errorf("connections cannot be taken: %s %s: %w: %s", name, strings.Join(words, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}
