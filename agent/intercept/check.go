// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"regexp"

	"bicast/api/agentv1"
	"bicast/internal/plural"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

const (
	maxTerminals = 250
	maxUplinks   = 8
	maxRelays    = 64
	maxChoices   = 4096
	maxPort      = 1<<16 - 1
)

// bridges matches the name of the bridge's end of a veth pair. The host's end has two letters more
// (controller/edges/config/relaying.py).
var bridges = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,12}$`)

// spec is a valid order.
type spec struct {
	bridgeLink divert.BridgeLink
	terminals  []terminal
	relays     []relay
	except     []netip.Prefix
	block      bool
}

// terminal is a terminal of the order.
type terminal struct {
	name      string
	addresses []netip.Addr
	locals    []netip.Addr // at the uplinks, the best first
}

type relay struct {
	name     string
	at       netip.AddrPort
	draining bool
	keySum   [sha256.Size]byte
	onward   []onward
}

// onward maps a port of this relay to another relay. A connection to the other relay gets a subflow through it.
type onward struct{ here, to netip.AddrPort }

// parseOrder validates an order.
func parseOrder(order *agentv1.Intercept) (w spec, err error) {
	w.block = order.GetBlock()
	for what, bound := range map[string][2]int{
		"terminals": {len(order.GetTerminals()), maxTerminals}, "uplinks": {len(order.GetUplinks()), maxUplinks},
		"relays": {len(order.GetRelays()), maxRelays},
	} {
		if bound[0] > bound[1] {
			return w, fmt.Errorf("%s: %d, expected at most %d", what, bound[0], bound[1])
		}
	}
	uniqueNames := uniqueNames{}
	w.bridgeLink.Port = order.GetPort()
	if err := uniqueNames.bridge("port", order.GetPort()); err != nil {
		return w, err
	}
	if len(order.GetUplinks()) == 0 {
		return w, fmt.Errorf("uplinks: none, expected 1 to %d", maxUplinks)
	}
	at := map[string]int{}
	for i, each := range order.GetUplinks() {
		uplink, err := uniqueNames.uplink(each)
		if err != nil {
			return w, fmt.Errorf("uplink %q: %w", each.GetName(), err)
		}
		at[each.GetName()] = i
		w.bridgeLink.Uplinks = append(w.bridgeLink.Uplinks, uplink)
	}
	for _, each := range order.GetTerminals() {
		one, err := uniqueNames.terminal(each, w.bridgeLink.Uplinks, at)
		if err != nil {
			return w, fmt.Errorf("terminal %q: %w", each.GetName(), err)
		}
		w.terminals = append(w.terminals, one)
	}
	for _, each := range order.GetRelays() {
		one, err := uniqueNames.relay(each)
		if err != nil {
			return w, fmt.Errorf("relay %q: %w", each.GetName(), err)
		}
		w.relays = append(w.relays, one)
	}
	for _, text := range order.GetExcepted() {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Addr().Is4In6() {
			return w, fmt.Errorf("except: %q, expected a network such as 203.0.113.0/24", text)
		}
		w.except = append(w.except, network)
	}
	return w, nil
}

// uniqueNames contains the names, ports and addresses of an order, which must be unique.
type uniqueNames map[string]bool

func (s uniqueNames) once(what, value string) error {
	if key := what + " " + value; value == "" || s[key] {
		return fmt.Errorf("%s %q is empty or used twice, expected a unique one", what, value)
	} else {
		s[key] = true
	}
	return nil
}

func (s uniqueNames) bridge(what, port string) error {
	if !bridges.MatchString(port) {
		return fmt.Errorf("%s %q, expected the name of a network device of up to 13 letters, digits and _.:@-, a letter, digit or _ first",
			what, port)
	}
	return s.once("port", port)
}

func (s uniqueNames) uplink(order *agentv1.InterceptUplink) (u divert.Uplink, err error) {
	if err := s.once("uplink", order.GetName()); err != nil {
		return u, err
	}
	u.Port = order.GetPort()
	if err := s.bridge("port", u.Port); err != nil {
		return u, err
	}
	families := map[bool]bool{}
	for _, text := range order.GetGateways() {
		gateway, err := netip.ParsePrefix(text)
		if err != nil || !unicast(gateway.Addr()) || gateway.Bits() == gateway.Addr().BitLen() || families[gateway.Addr().Is4()] {
			return u, fmt.Errorf("gateway %q, expected an address and a length such as 10.97.1.1/24, at most one for each IP version", text)
		}
		families[gateway.Addr().Is4()] = true
		u.Gateways = append(u.Gateways, gateway)
	}
	if len(u.Gateways) == 0 {
		return u, fmt.Errorf("gateways: none, expected one for IPv4 or IPv6")
	}
	return u, nil
}

func (s uniqueNames) terminal(order *agentv1.InterceptedTerminal, uplinks []divert.Uplink, at map[string]int) (t terminal, err error) {
	t.name = order.GetName()
	if err := s.once("terminal", t.name); err != nil {
		return t, err
	}
	for _, text := range order.GetAddresses() {
		address, err := s.address("address", text)
		if err != nil {
			return t, err
		}
		t.addresses = append(t.addresses, address)
	}
	if len(t.addresses) == 0 || len(order.GetLocals()) == 0 {
		return t, fmt.Errorf("%s and %s, expected at least one of each",
			plural.Of(len(t.addresses), "address"), plural.Of(len(order.GetLocals()), "local"))
	}
	for _, each := range order.GetLocals() {
		i, known := at[each.GetUplink()]
		if !known {
			return t, fmt.Errorf("local of uplink %q, expected one of the order's uplinks", each.GetUplink())
		}
		for _, text := range each.GetAddresses() {
			address, err := s.address("local", text)
			if err != nil {
				return t, err
			}
			if !within(address, uplinks[i].Gateways) {
				return t, fmt.Errorf("local %v, expected an address in the uplink's network %v other than the gateway's", address, uplinks[i].Gateways)
			}
			uplinks[i].Locals = append(uplinks[i].Locals, address)
			t.locals = append(t.locals, address)
		}
	}
	return t, nil
}

func within(address netip.Addr, gateways []netip.Prefix) bool {
	for _, gateway := range gateways {
		if gateway.Contains(address) && gateway.Addr() != address {
			return true
		}
	}
	return false
}

func (s uniqueNames) address(what, text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !unicast(address) {
		return address, fmt.Errorf("%s %q, expected the address of one host", what, text)
	}
	return address, s.once("address", address.String())
}

func unicast(address netip.Addr) bool {
	return address.IsValid() && !address.IsUnspecified() && !address.IsMulticast() && !address.IsLoopback() &&
		!address.Is4In6() && address.Zone() == ""
}

func (s uniqueNames) relay(order *agentv1.InterceptRelay) (r relay, err error) {
	r.name, r.draining = order.GetName(), order.GetDraining()
	if err := s.once("relay", r.name); err != nil {
		return r, err
	}
	if r.at, err = place("address", order.GetAddress(), order.GetPort()); err != nil {
		return r, err
	}
	if n := copy(r.keySum[:], order.GetKeySha256()); n != sha256.Size || len(order.GetKeySha256()) != n {
		return r, fmt.Errorf("key_sha256: %d bytes, expected %d", len(order.GetKeySha256()), sha256.Size)
	}
	if n := len(order.GetOnward()); n > maxRelays {
		return r, fmt.Errorf("onward: %d, expected at most %d", n, maxRelays)
	}
	for _, each := range order.GetOnward() {
		here, err := place("onward: address", order.GetAddress(), each.GetPort())
		if err != nil {
			return r, err
		}
		to, err := place("onward: address", each.GetAddress(), each.GetOtherPort())
		if err != nil {
			return r, err
		}
		r.onward = append(r.onward, onward{here, to})
	}
	return r, nil
}

func place(what, text string, port uint32) (at netip.AddrPort, err error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !unicast(address) {
		return at, fmt.Errorf("%s %q, expected the address of one host", what, text)
	}
	if port == 0 || port > maxPort {
		return at, fmt.Errorf("%s %v: port %d, expected 1 to %d", what, address, port, maxPort)
	}
	return netip.AddrPortFrom(address, uint16(port)), nil
}

// parseChoices validates choices. It skips unknown relays, because a later order may add them.
func parseChoices(order *agentv1.Choices, relays map[string]*proxy.Relay) (*proxy.Choices, error) {
	if n := len(order.GetChoices()); n > maxChoices {
		return nil, fmt.Errorf("choices: %d, expected at most %d", n, maxChoices)
	}
	by := map[netip.Prefix]proxy.Choice{}
	for _, each := range order.GetChoices() {
		prefix, err := netip.ParsePrefix(each.GetPrefix())
		if err != nil || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("prefix %q, expected a network such as 203.0.113.0/24", each.GetPrefix())
		}
		if _, twice := by[prefix]; twice {
			return nil, fmt.Errorf("prefix %v is listed twice, expected one choice for each", prefix)
		}
		if len(each.GetRelays()) > maxRelays {
			return nil, fmt.Errorf("prefix %v: %d relays, expected at most %d", prefix, len(each.GetRelays()), maxRelays)
		}
		choice := proxy.Choice{Together: each.GetTogether(), Direct: len(each.GetRelays()) == 0}
		for _, name := range each.GetRelays() {
			if one := relays[name]; one != nil {
				choice.Relays = append(choice.Relays, one)
			}
		}
		by[prefix] = choice
	}
	return proxy.Chosen(by), nil
}
