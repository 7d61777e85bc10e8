// SPDX-License-Identifier: Apache-2.0

// Package reach decides what gateways may reach through a relay: listed ports of Internet servers, and nothing of the
// relay's own host or network.
package reach

import (
	"fmt"
	"net/netip"
)

// Network is a range of addresses that no relay reaches, and its description.
type Network struct {
	Prefix netip.Prefix
	What   string
}

// Never lists the addresses that are not global (RFC 6890, IANA's registries). Global IPv6 is in 2000::/3. Addresses
// with an embedded IPv4 address (mapped, 6to4, Teredo, NAT64) are excluded, because the relay does not know where they
// lead: use the IPv4 address instead.
var Never = []Network{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a provider's own"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's own service"}, // Azure, besides 169.254.169.254
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "for protocols"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for measurements"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/3"), "not for everybody (loopback, IPv4 in IPv6, NAT64, ...)"},
	{netip.MustParsePrefix("2001::/23"), "for protocols (Teredo, ...)"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
	{netip.MustParsePrefix("4000::/2"), "reserved"},
	{netip.MustParsePrefix("8000::/1"), "not for everybody (private, link-local, multicast, ...)"},
}

// Public returns nil for a global address, or an error that describes it.
func Public(address netip.Addr) error {
	for _, network := range Never {
		if network.Prefix.Contains(address.WithZone("")) {
			return fmt.Errorf("%v is %s", address, network.What)
		}
	}
	return nil
}
