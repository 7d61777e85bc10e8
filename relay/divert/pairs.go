// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// link is a veth device, as `ip -json` describes it.
type link struct {
	Name  string   `json:"ifname"`
	Group string   `json:"group"`
	Flags []string `json:"flags"`
}

// pairGroup is the group of the host ends of our pairs. `bicast bridge` makes pairs for LANs with like names.
const pairGroup = "25193"

type linkList []link

func links() (linkList, error) {
	said, err := output("", "iproute2", "ip", "-json", "link", "show", "type", "veth")
	if err != nil {
		return nil, err
	}
	var found linkList
	if len(said) == 0 { // some versions print nothing if there is none
		return nil, nil
	}
	if err := json.Unmarshal(said, &found); err != nil {
		return nil, fmt.Errorf("cannot intercept connections: ip -json link printed %.80q: %w", said, err)
	}
	return found, nil
}

func (l linkList) removeAllBut(ends []string) error {
	for _, each := range l {
		if each.ours() && !slices.Contains(ends, each.Name) {
			if err := ip("link", "delete", each.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l link) ours() bool { return l.Group == pairGroup }

// pair creates a pair, unless a killed agent or the previous order has left it. Towards terminals ARP is off.
func (l linkList) pair(port string, terminals bool) (made bool, err error) {
	host := Host(port)
	at := slices.IndexFunc(l, func(one link) bool { return one.Name == host })
	if at < 0 || !l[at].ours() {
		err := ip("link", "add", "name", host, "address", hostMAC, "group", pairGroup, "type", "veth", "peer", "name", port)
		if err != nil {
			return false, fmt.Errorf("%w: expected no device %s or %s except the pair made here", err, port, host)
		}
		made = true
	} else if slices.Contains(l[at].Flags, "UP") { // UP is set last
		return false, nil
	}
	if err := settings(port, host, terminals); err != nil {
		return false, err
	}
	lines := []string{"addrgenmode none", "up"}
	if terminals {
		lines = []string{"addrgenmode none", "arp off", "up"}
	}
	text := ""
	for _, line := range lines {
		text += fmt.Sprintf("link set dev %s %s\n", host, line)
	}
	return made, batch(text)
}

// Open sets the bridge's ends in this network namespace up: last, when everything else is ready.
func (g *BridgeLink) Open() error {
	var text strings.Builder
	for _, port := range g.Here() {
		fmt.Fprintf(&text, "link set dev %s up\n", port)
	}
	return batch(text.String())
}

// Here returns the bridge's ends in this network namespace. A bridge in another namespace has moved its ends there.
func (g *BridgeLink) Here() []string {
	return slices.DeleteFunc(append([]string{g.Port}, ports(g.Uplinks)...), func(port string) bool {
		_, err := net.InterfaceByName(port)
		return err != nil
	})
}

// settings sets the sysctls of a pair. The bridge's end sends nothing by itself.
func settings(port, host string, terminals bool) error {
	wanted := map[string]string{
		sysctl("ipv4", port, "forwarding"):   "0",
		sysctl("ipv6", port, "disable_ipv6"): "1",
		sysctl("ipv6", host, "disable_ipv6"): "0",
		sysctl("ipv6", host, "accept_ra"):    "0",
		sysctl("ipv4", host, "rp_filter"):    loosest(),
		sysctl("ipv4", host, "arp_ignore"):   "1",
	}
	if terminals {
		wanted[sysctl("ipv4", host, "forwarding")] = "1"
		wanted[sysctl("ipv6", host, "force_forwarding")] = "1"
	}
	for path, value := range wanted {
		err := os.WriteFile(path, []byte(value), 0)
		if errors.Is(err, fs.ErrNotExist) && path != sysctl("ipv4", host, filepath.Base(path)) {
			continue // a kernel without IPv6, or before 6.17; or the bridge has moved its end
		}
		if err != nil {
			return fmt.Errorf("cannot intercept connections: %w; run this as root", err)
		}
	}
	return nil
}

// loosest returns the least strict rp_filter that a device can have. The kernel uses the maximum of the device's value
// and of "all", and 2 (loose) is less strict than 1.
func loosest() string {
	if all, err := os.ReadFile(sysctl("ipv4", "all", "rp_filter")); err == nil && strings.TrimSpace(string(all)) == "0" {
		return "0"
	}
	return "2"
}

func sysctl(family, device, name string) string {
	return "/proc/sys/net/" + family + "/conf/" + device + "/" + name
}

// address gives the host's end exactly the addresses that speak for terminals.
func (u Uplink) address() error {
	device, err := net.InterfaceByName(Host(u.Port))
	if err != nil {
		return err
	}
	have, err := device.Addrs()
	if err != nil {
		return err
	}
	stale := map[string]bool{}
	for _, each := range have {
		stale[each.String()] = true
	}
	var text strings.Builder
	for _, local := range u.Locals {
		one := netip.PrefixFrom(local, local.BitLen()).String()
		if stale[one] {
			delete(stale, one)
			continue
		}
		fmt.Fprintf(&text, "address add %s dev %s%s\n", one, device.Name, map[bool]string{true: " nodad"}[local.Is6()])
	}
	for each := range stale {
		fmt.Fprintf(&text, "address del %s dev %s\n", each, device.Name)
	}
	return batch(text.String())
}
