// Package onward passes further subflows on to other relays, packet by packet: MPTCP knows them by the token that they show,
// and so one connection with a relay goes by another one's way, too. nftables rewrites addresses both ways, and lets nothing
// but what joins an MPTCP connection begin.
//
// Where a device does not forward it is made to, and what else would be forwarded from there by that is dropped. What was
// changed is kept in the table itself: so who comes after a killed agent knows it.
package onward

import (
	"bytes"
	"encoding/json"
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
	"bicast/internal/tool"
)

const (
	table = "bicast-onward"
)

// Way is to another relay.
type Way struct {
	Port uint16 // of TCP, here
	To   netip.AddrPort
}

// Place is this network namespace's one place for ways.
type Place struct{ name io.Closer }

// Claim has the calling thread's network namespace for this process, before anything is changed.
func Claim() (*Place, error) {
	name, err := claim.Take("onward", "passes subflows on in this network namespace")
	if err != nil {
		return nil, err
	}
	return &Place{name}, nil
}

// Close takes all ways away, and gives the place free.
func (p *Place) Close() error { return errors.Join(p.Lead(nil), p.name.Close()) }

// Release takes away what a process left that was killed, and tells whether it had to; it leaves alone what is of one that lives.
func Release() (released bool, err error) {
	place, err := Claim()
	if errors.Is(err, claim.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := nft("", "list", "table", "inet", table); err != nil {
		return false, place.name.Close() // there is none, or nobody here can have made one
	}
	return true, place.Close()
}

// Lead has these ways in the place of those before. What goes by one that stays goes on.
func (p *Place) Lead(ways []Way) error {
	before, err := read()
	if err != nil {
		return err
	}
	after := opened{}
	for _, f := range families {
		if slices.ContainsFunc(ways, f.has) {
			if after.devices[f.index], err = f.closed(before.devices[f.index]); err != nil {
				return err
			}
		}
	}
	text := removal
	if len(ways) > 0 {
		text += after.rules(ways)
	}
	for _, f := range families {
		for _, device := range before.devices[f.index] {
			if !slices.Contains(after.devices[f.index], device) {
				err = errors.Join(err, f.forward(device, false))
			}
		}
	}
	if _, wrong := nft(text, "-f", "-"); wrong != nil {
		return errors.Join(err, wrong)
	}
	for _, f := range families {
		for _, device := range after.devices[f.index] {
			err = errors.Join(err, f.forward(device, true))
		}
	}
	return err
}

// opened are the devices that forward only because of us.
type opened struct {
	devices [2][]string // by family
}

// removal is no error where there is no table.
const removal = "add table inet " + table + "\ndelete table inet " + table + "\n"

func (o opened) rules(ways []Way) string {
	var sets, coming, going, through strings.Builder
	for _, f := range families {
		fmt.Fprintf(&sets, "set %s {\ntype ifname\n", f.set())
		if devices := o.devices[f.index]; len(devices) > 0 {
			fmt.Fprintf(&sets, "elements = { %s }\n", strings.Join(quoted(devices), ", "))
		}
		fmt.Fprintf(&sets, "}\n")
		fmt.Fprintf(&through, "meta nfproto %s iifname @%s drop\n", f.nft, f.set())
	}
	for _, way := range ways {
		f := families[0]
		if !f.has(way) {
			f = families[1]
		}
		fmt.Fprintf(&coming, "meta nfproto %s fib daddr type local tcp dport %d tcp option mptcp subtype 1 dnat %s to %v\n",
			f.nft, way.Port, f.ip, way.To) // subtype 1: MP_JOIN (RFC 8684, section 3.2)
		fmt.Fprintf(&going, "%s daddr %v tcp dport %d ct original proto-dst %d masquerade\n",
			f.ip, way.To.Addr(), way.To.Port(), way.Port)
	}
	return fmt.Sprintf("table inet %s {\n%schain coming {\ntype nat hook prerouting priority dstnat\n%s}\n"+
		"chain going {\ntype nat hook postrouting priority srcnat\n%s}\n"+
		"chain through {\ntype filter hook forward priority filter\nct status dnat accept\n%s}\n}\n",
		table, &sets, &coming, &going, &through)
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return all
}

// family is IPv4 or IPv6.
type family struct {
	index    int
	ip, nft  string
	switches string // of a device, in /proc/sys/net
	missing  string // why a kernel has it not
}

var families = []family{
	{0, "ip", "ipv4", "ipv4/conf/%s/forwarding", "this kernel forwards no IPv4"},
	{1, "ip6", "ipv6", "ipv6/conf/%s/force_forwarding", "one device alone forwards IPv6 since Linux 6.17: this kernel is older"},
}

func (f family) has(way Way) bool { return way.To.Addr().Is6() == (f.index == 1) }

func (f family) set() string { return "opened_" + f.nft }

// closed are the devices that do not forward by themselves.
func (f family) closed(before []string) (names []string, err error) {
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
			return nil, fmt.Errorf("nothing can be passed on: %s (%w)", f.missing, err)
		}
		if strings.TrimSpace(string(text)) == "0" || slices.Contains(before, device.Name) {
			names = append(names, device.Name)
		}
	}
	return names, nil
}

func (f family) path(device string) string { return "/proc/sys/net/" + fmt.Sprintf(f.switches, device) }

// forward is no error for a device that has gone.
func (f family) forward(device string, so bool) error {
	value := "0"
	if so {
		value = "1"
	}
	err := os.WriteFile(f.path(device), []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// read is what stands.
func read() (o opened, err error) {
	tables, err := nft("", "-j", "list", "tables")
	if err != nil {
		return o, err
	}
	if !bytes.Contains(tables, []byte(`"`+table+`"`)) {
		return o, nil
	}
	for _, f := range families {
		text, err := nft("", "-j", "list", "set", "inet", table, f.set())
		if err != nil {
			return o, err
		}
		var said struct {
			Nftables []struct {
				Set struct {
					Elem []string `json:"elem"`
				} `json:"set"`
			} `json:"nftables"`
		}
		if err := json.Unmarshal(text, &said); err != nil {
			return o, fmt.Errorf("what nft says of the table %s cannot be read: %w", table, err)
		}
		for _, each := range said.Nftables {
			o.devices[f.index] = append(o.devices[f.index], each.Set.Elem...)
		}
	}
	return o, nil
}

func nft(text string, words ...string) ([]byte, error) {
	said, err := tool.Run("nftables", text, "nft", words...)
	if err != nil {
		return nil, fmt.Errorf("nothing can be passed on to other relays: %w", err)
	}
	return said, nil
}
