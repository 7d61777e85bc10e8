// SPDX-License-Identifier: Apache-2.0

// Package onward forwards additional subflows to other relays, packet by packet: the peer assigns them by their token.
// So one connection with a relay also uses the path through another one. nftables rewrites addresses in both
// directions, and lets only MP_JOINs start a flow.
//
// It enables forwarding on devices that lack it, and drops everything else that would then be forwarded from there. A
// file records these devices for the next agent after a killed one, and for restoring a flushed table.
package onward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"bicast/internal/claim"
	"bicast/internal/hostcommand"
	"bicast/internal/nftable"
)

const (
	table = "bicast-onward"

	// Rate per second and burst of new subflows from one unknown network, and from all together. A SYN's source may
	// be forged, so all together have a limit too; the limit of each keeps one of them from using it up.
	eachRate, eachBurst       = 1, 4
	unknownRate, unknownBurst = 16, 64
	mostUnknown               = 4096 // networks within a minute
)

// PortForward forwards the subflows that reach a port of this host to another relay.
type PortForward struct {
	Port uint16 // TCP port of this host
	To   netip.AddrPort
}

// Forwarder holds the claim on this network namespace, and the port forwards in force.
type Forwarder struct {
	lock       io.Closer // the claim
	forwarding record
	forwards   []PortForward
	rules      int            // of the table, as written
	guests     []netip.Prefix // networks of recent gateways
}

// Claim claims the calling thread's network namespace, before anything is changed.
func Claim() (*Forwarder, error) {
	lock, err := claim.Take("onward", "forwards subflows in this network namespace")
	if err != nil {
		return nil, err
	}
	path, err := claim.File("onward devices")
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Forwarder{lock: lock, forwarding: record(path)}, nil
}

// Close removes all port forwards and releases the claim.
func (p *Forwarder) Close() error { return errors.Join(p.Replace(nil), p.lock.Close()) }

// Release undoes what a killed process left, and tells whether there was anything. It does nothing while a live one has
// the claim.
func Release() (released bool, err error) {
	forwarder, err := Claim()
	if errors.Is(err, claim.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	left, err := forwarder.forwarding.read()
	if err != nil {
		return false, errors.Join(err, forwarder.lock.Close())
	}
	if _, err := nft("", "list", "table", "inet", table); err != nil && left.isEmpty() {
		return false, forwarder.lock.Close() // there is none, or no nft that could have made one
	}
	return true, forwarder.Close()
}

// Replace replaces the port forwards. Flows over an unchanged port forward continue.
func (p *Forwarder) Replace(forwards []PortForward) error {
	before, err := p.forwarding.read()
	if err != nil {
		return err
	}
	after := forwarding{}
	for _, f := range families {
		if slices.ContainsFunc(forwards, f.has) {
			if after.devices[f.index], err = f.notForwarding(before.devices[f.index]); err != nil {
				return err
			}
		}
	}
	if err := p.forwarding.write(before.with(after)); err != nil { // before any change, for the next agent
		return err
	}
	text := removal
	if len(forwards) > 0 {
		text += after.rules(forwards, p.guests)
	}
	err = before.forward(false, after)
	if _, wrong := nft(text, "-f", "-"); wrong != nil {
		return errors.Join(err, wrong)
	}
	p.forwards = forwards
	var unread error
	p.rules, unread = nftable.Rules(table)
	return errors.Join(err, unread, after.forward(true, forwarding{}), p.forwarding.write(after))
}

// Tend restores the rules after a firewall restart has flushed them. Without the rules the opened devices would forward
// everything, so they stop until the rules are back. lost means that the rules were gone.
func (p *Forwarder) Tend() (lost bool, err error) {
	rules, err := nftable.Rules(table)
	if err != nil || rules == p.rules || len(p.forwards) == 0 {
		return false, err
	}
	devices, err := p.forwarding.read()
	if err != nil {
		return true, err
	}
	return true, errors.Join(devices.forward(false, forwarding{}), p.Replace(p.forwards))
}

// Admit admits new subflows from these networks. All others have a small rate each, and share one: a gateway's uplink
// may be new.
func (p *Forwarder) Admit(guests []netip.Prefix) error {
	if slices.Equal(guests, p.guests) {
		return nil
	}
	p.guests = guests
	if len(p.forwards) == 0 {
		return nil
	}
	var text strings.Builder
	for _, f := range families {
		fmt.Fprintf(&text, "flush set inet %s %s\n", table, f.guests())
		if elements := f.networks(guests); elements != nil {
			fmt.Fprintf(&text, "add element inet %s %s { %s }\n", table, f.guests(), strings.Join(elements, ", "))
		}
	}
	_, err := nft(text.String(), "-f", "-")
	return err
}

// forwarding are the devices that forward only because of this package.
type forwarding struct {
	devices [2][]string // by family
}

func (o forwarding) isEmpty() bool { return len(o.devices[0])+len(o.devices[1]) == 0 }

func (o forwarding) with(more forwarding) (both forwarding) {
	for i := range both.devices {
		both.devices[i] = append(slices.Clone(o.devices[i]), more.devices[i]...)
		slices.Sort(both.devices[i])
		both.devices[i] = slices.Compact(both.devices[i])
	}
	return both
}

// forward switches forwarding of all these devices except some.
func (o forwarding) forward(on bool, but forwarding) (err error) {
	for _, f := range families {
		for _, device := range o.devices[f.index] {
			if !slices.Contains(but.devices[f.index], device) {
				err = errors.Join(err, f.forward(device, on))
			}
		}
	}
	return err
}

// removal deletes the table; adding it first avoids an error if there is none.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

func (o forwarding) rules(forwards []PortForward, guests []netip.Prefix) string {
	var sets, joins, each, coming, going, through strings.Builder
	for _, f := range families {
		fmt.Fprintf(&sets, "set %s {\ntype ifname\n", f.set())
		if devices := o.devices[f.index]; len(devices) > 0 {
			fmt.Fprintf(&sets, "elements = { %s }\n", strings.Join(quoted(devices), ", "))
		}
		fmt.Fprintf(&sets, "}\nset %s {\ntype %s_addr\n", f.guests(), f.nft)
		if elements := f.networks(guests); elements != nil {
			fmt.Fprintf(&sets, "elements = { %s }\n", strings.Join(elements, ", "))
		}
		fmt.Fprintf(&sets, "}\nset %s {\ntype %s_addr\nsize %d\nflags dynamic,timeout\ntimeout 1m\n}\n", f.unknown(), f.nft, mostUnknown)
		fmt.Fprintf(&joins, "%s saddr & %s @%s accept\n", f.ip, f.mask, f.guests())
		fmt.Fprintf(&each, "update @%s { %s saddr & %s limit rate %d/second burst %d packets } goto together\n",
			f.unknown(), f.ip, f.mask, eachRate, eachBurst)
		fmt.Fprintf(&through, "meta nfproto %s iifname @%s drop\n", f.nft, f.set())
	}
	var ports []string
	for _, forward := range forwards {
		ports = append(ports, strconv.Itoa(int(forward.Port)))
		f := families[0]
		if !f.has(forward) {
			f = families[1]
		}
		fmt.Fprintf(&coming, "meta nfproto %s fib daddr type local tcp dport %d tcp option mptcp subtype 1 dnat %s to %v\n",
			f.nft, forward.Port, f.ip, forward.To) // subtype 1: MP_JOIN (RFC 8684, section 3.2)
		fmt.Fprintf(&going, "%s daddr %v tcp dport %d ct original proto-dst %d masquerade\n",
			f.ip, forward.To.Addr(), forward.To.Port(), forward.Port)
	}
	joins.WriteString(each.String() + "drop\n")
	together := fmt.Sprintf("limit rate %d/second burst %d packets accept\ndrop\n", unknownRate, unknownBurst)
	return fmt.Sprintf("table inet %s {\n%schain together {\n%s}\nchain joins {\n%s}\nchain opening {\ntype filter hook prerouting priority mangle\n"+
		"fib daddr type local tcp dport { %s } tcp flags & (syn | ack) == syn jump joins\n}\nchain coming {\ntype nat hook prerouting priority dstnat\n%s}\n"+
		"chain going {\ntype nat hook postrouting priority srcnat\n%s}\n"+
		"chain through {\ntype filter hook forward priority filter\nct status dnat accept\n%s}\n}\n",
		table, &sets, together, &joins, strings.Join(ports, ", "), &coming, &going, &through)
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return all
}

// family is IPv4 or IPv6.
type family struct {
	index   int
	ip, nft string
	sysctl  string // sysctl of a device, below /proc/sys/net
	lacking string // why a kernel lacks the sysctl
	mask    string // of the networks that gateways are recorded by
	bits    int
}

var families = []family{
	{0, "ip", "ipv4", "ipv4/conf/%s/forwarding", "this kernel forwards no IPv4", "255.255.255.0", 24},
	{1, "ip6", "ipv6", "ipv6/conf/%s/force_forwarding", "one device alone forwards IPv6 since Linux 6.17: this kernel is older", "ffff:ffff:ffff:ffff::", 64},
}

func (f family) has(forward PortForward) bool { return forward.To.Addr().Is6() == (f.index == 1) }

func (f family) set() string { return "opened_" + f.nft }

func (f family) guests() string { return "guests_" + f.nft }

func (f family) unknown() string { return "unknown_" + f.nft }

// networks returns the elements of a set.
func (f family) networks(all []netip.Prefix) (elements []string) {
	for _, each := range all {
		if each.Addr().Is6() == (f.index == 1) {
			elements = append(elements, each.Masked().Addr().String())
		}
	}
	return elements
}

// notForwarding returns the devices that do not forward by themselves.
func (f family) notForwarding(before []string) (names []string, err error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		if device.Flags&net.FlagLoopback != 0 || device.Flags&net.FlagUp == 0 {
			continue
		}
		text, err := os.ReadFile(f.path(device.Name))
		if err != nil {
			return nil, fmt.Errorf("cannot forward subflows: %s (%w)", f.lacking, err)
		}
		if strings.TrimSpace(string(text)) == "0" || slices.Contains(before, device.Name) {
			names = append(names, device.Name)
		}
	}
	return names, nil
}

func (f family) path(device string) string { return "/proc/sys/net/" + fmt.Sprintf(f.sysctl, device) }

// forward switches forwarding of one device; a missing device is no error.
func (f family) forward(device string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	err := os.WriteFile(f.path(device), []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// record is the path of the file with the opened devices: the namespace's cookie, then a family and a device per line.
type record string

func (r record) read() (o forwarding, err error) {
	text, err := os.ReadFile(string(r))
	if errors.Is(err, os.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	space, err := claim.Cookie()
	if err != nil {
		return o, err
	}
	lines := strings.Split(string(text), "\n")
	if lines[0] != space { // of an earlier namespace with the same inode
		return o, nil
	}
	for _, line := range lines[1:] {
		for _, f := range families {
			if device, found := strings.CutPrefix(line, f.nft+" "); found {
				o.devices[f.index] = append(o.devices[f.index], device)
			}
		}
	}
	return o, nil
}

// write replaces the file.
func (r record) write(o forwarding) error {
	if o.isEmpty() {
		if err := os.Remove(string(r)); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := claim.Cookie()
	if err != nil {
		return err
	}
	text += "\n"
	for _, f := range families {
		for _, device := range o.devices[f.index] {
			text += f.nft + " " + device + "\n"
		}
	}
	fresh := string(r) + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot record the devices with forwarding enabled, so no subflows are forwarded: %w", err)
	}
	return os.Rename(fresh, string(r))
}

func nft(text string, words ...string) ([]byte, error) {
	said, err := hostcommand.Run("nftables", text, "nft", words...)
	if err != nil {
		return nil, fmt.Errorf("cannot forward subflows to other relays: %w", err)
	}
	return said, nil
}
