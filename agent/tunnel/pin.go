// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"bicast/internal/hostcommand"
	"bicast/internal/nftable"
)

const (
	table     = "bicast-tunnels"
	nftAtMost = 10 * time.Second
)

// pin admits packets of one tunnel from one address only.
type pin struct {
	udpPort         uint16
	vni             uint32
	peer            netip.AddrPort // not valid: none
	unauthenticated uint64         // the initial value of the counter of dropped packets
}

func (p pin) name(of string) string { return fmt.Sprintf("%s-%d-%d", of, p.udpPort, p.vni) }

func (p pin) elements(six bool) string {
	if !p.peer.IsValid() || p.peer.Addr().Is6() != six {
		return ""
	}
	return fmt.Sprintf("%s . %d", p.peer.Addr(), p.peer.Port())
}

// pins is the agent's nft table in one namespace. It changes no other table.
type pins struct {
	outside func(func() error) error
}

// write replaces the table atomically.
func (p pins) write(all []pin) error { return p.nft(removal+rules(all), false) }

// move replaces the admitted address.
func (p pins) move(to pin) error {
	var text strings.Builder
	for _, six := range []bool{false, true} {
		set := to.name(setOf(six))
		fmt.Fprintf(&text, "flush set inet %s %s\n", table, set)
		if elements := to.elements(six); elements != "" {
			fmt.Fprintf(&text, "add element inet %s %s { %s }\n", table, set, elements)
		}
	}
	return p.nft(text.String(), false)
}

// exist reports whether the table exists and is readable.
func (p pins) exist() bool {
	counted, err := p.dropped()
	return err == nil && counted != nil
}

// check returns why nft would refuse the table. It changes nothing.
func (p pins) check() error {
	return p.nft(removal+rules([]pin{{udpPort: 1, peer: netip.MustParseAddrPort("192.0.2.1:1")}}), true)
}

func (p pins) remove() error { return p.nft(removal, false) }

// removal succeeds even if there is no table.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

func setOf(six bool) string {
	if six {
		return "six"
	}
	return "four"
}

// rules returns the table. From the start of the UDP header (RFC 7348, section 5), the VNI is at byte 12 and the EtherType
// of the inner frame at byte 28. Questions of the agents do not count as dropped packets: the other end may have moved.
func rules(all []pin) string {
	var sets, chain strings.Builder
	for _, each := range all {
		fmt.Fprintf(&sets, "counter %s { packets %d bytes 0; }\n", each.name("strangers"), each.unauthenticated)
		ours := fmt.Sprintf("udp dport %d @th,96,24 %d", each.udpPort, each.vni)
		for _, six := range []bool{false, true} {
			address, source := "ipv4_addr", "ip saddr"
			if six {
				address, source = "ipv6_addr", "ip6 saddr"
			}
			set := each.name(setOf(six))
			fmt.Fprintf(&sets, "set %s {\ntype %s . inet_service\n", set, address)
			if elements := each.elements(six); elements != "" {
				fmt.Fprintf(&sets, "elements = { %s }\n", elements)
			}
			fmt.Fprintf(&sets, "}\n")
			fmt.Fprintf(&chain, "%s %s . udp sport @%s accept\n", ours, source, set)
		}
		fmt.Fprintf(&chain, "%s @th,224,16 %#x drop\n", ours, etherType)
		fmt.Fprintf(&chain, "%s counter name %s drop\n", ours, each.name("strangers"))
	}
	return fmt.Sprintf("table inet %s {\n%schain input {\ntype filter hook input priority filter - 10; policy accept;\n%s}\n}\n",
		table, &sets, &chain)
}

// nft applies a text atomically, or only checks it.
func (p pins) nft(text string, only bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), nftAtMost)
	defer cancel()
	arguments := []string{"-f", "-"}
	if only {
		arguments = append(arguments, "-c")
	}
	err := p.outside(func() error {
		command := hostcommand.Command(ctx, "nft", arguments...)
		command.Stdin = strings.NewReader(text)
		var said bytes.Buffer
		command.Stderr = &said
		if err := command.Run(); err != nil {
			return errors.Join(err, errors.New(strings.TrimSpace(said.String())))
		}
		return nil
	})
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("cannot keep unauthenticated packets out of tunnels: this host has no nft; install the package nftables")
	}
	if err != nil {
		return fmt.Errorf("cannot keep unauthenticated packets out of tunnels: nft: %w", err)
	}
	return nil
}

// dropped returns the numbers of dropped packets by the name of the counter, or nil if the table is gone.
func (p pins) dropped() (counted map[string]uint64, err error) {
	err = p.outside(func() (err error) {
		counted, err = nftable.Counters(table)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count unauthenticated packets: %w", err)
	}
	return counted, nil
}
