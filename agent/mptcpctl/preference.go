// SPDX-License-Identifier: Apache-2.0

package mptcpctl

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bicast/api/agentv1"
)

// Path is a path, as the terminal's addresses on it.
type Path []netip.Addr

// Preference is a valid Prefer order.
type Preference struct {
	Path   Path
	Others Path // addresses of all paths to leave
	Hard   bool
}

// ParsePreference parses an order, or returns what is wrong with it.
func ParsePreference(order *agentv1.Prefer) (Preference, error) {
	preference := Preference{Hard: order.GetHard()}
	var err error
	if preference.Path, err = ParsePath("path", order.GetPath()); err != nil {
		return Preference{}, err
	}
	for i, other := range order.GetOthers() {
		path, err := ParsePath(fmt.Sprintf("others[%d]", i), other)
		if err != nil {
			return Preference{}, err
		}
		preference.Others = append(preference.Others, path...)
	}
	return preference, preference.check()
}

// ParsePath parses the path in a field of an order.
func ParsePath(field string, path *agentv1.Path) (Path, error) {
	if len(path.GetTerminalAddresses()) == 0 {
		return nil, fmt.Errorf("%s has no terminal_addresses, expected at least one", field)
	}
	var found Path
	for _, text := range path.GetTerminalAddresses() {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not an IP address", field, text)
		}
		found = append(found, address.Unmap())
	}
	return found, nil
}

func (w Preference) check() error {
	for _, address := range w.Path {
		if slices.Contains(w.Others, address) {
			return fmt.Errorf("%v is both on the preferred path and on one to leave", address)
		}
	}
	if w.Hard && len(w.Others) == 0 {
		return errors.New("hard closes the subflows of other paths, but the order has no others")
	}
	return nil
}

// Has reports whether an address is on this path.
func (p Path) Has(address netip.Addr) bool { return slices.Contains(p, address) }

// In returns the path's addresses that are among the given ones.
func (p Path) In(given []netip.Addr) Path {
	var found Path
	for _, address := range p {
		if slices.Contains(given, address) {
			found = append(found, address)
		}
	}
	return found
}

// String returns the addresses.
func (p Path) String() string {
	texts := make([]string, len(p))
	for i, address := range p {
		texts[i] = address.String()
	}
	return strings.Join(texts, ", ")
}
