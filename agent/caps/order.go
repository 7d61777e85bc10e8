// SPDX-License-Identifier: Apache-2.0

package caps

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"bicast/api/agentv1"
)

const (
	maxCaps     = 4096
	minLease    = 500 * time.Millisecond
	maxLease    = 10 * time.Second
	maxSegments = 1 << 20 // more than a TCP window of 1 GiB holds
)

// read parses an order, or returns what is wrong with it.
func read(order *agentv1.Caps) (map[Pair]Bounds, time.Duration, error) {
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	switch {
	case lease < minLease || lease > maxLease:
		return nil, 0, fmt.Errorf("a lease of %v, expected %v to %v", lease, minLease, maxLease)
	case len(order.GetCaps()) > maxCaps:
		return nil, 0, fmt.Errorf("%d caps, expected at most %d", len(order.GetCaps()), maxCaps)
	}
	caps := make(map[Pair]Bounds, len(order.GetCaps()))
	for _, each := range order.GetCaps() {
		between := fmt.Sprintf("the cap of %q to %q", each.GetTerminalAddress(), each.GetOtherAddress())
		key, err := pairOf(each)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", between, err)
		}
		if _, twice := caps[key]; twice {
			return nil, 0, fmt.Errorf("%s is ordered twice, expected one for each pair", between)
		}
		if caps[key], err = boundsOf(each); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", between, err)
		}
	}
	return caps, lease, nil
}

func pairOf(each *agentv1.Cap) (Pair, error) {
	source, err := address(each.GetTerminalAddress())
	if err != nil {
		return Pair{}, err
	}
	destination, err := address(each.GetOtherAddress())
	if err != nil {
		return Pair{}, err
	}
	switch {
	case source == destination:
		return Pair{}, errors.New("both addresses are the same, expected two hosts")
	case source.Is4() != destination.Is4():
		return Pair{}, errors.New("one address is IPv4 and the other IPv6, expected the same version")
	}
	return Pair{source.As16(), destination.As16()}, nil
}

func address(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return address, fmt.Errorf("%q is not an IP address", text)
	}
	address = address.Unmap()
	if address.Zone() != "" || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() {
		return address, fmt.Errorf("%s is not a unicast address without a zone", address)
	}
	return address, nil
}

func boundsOf(each *agentv1.Cap) (Bounds, error) {
	most, least := each.GetMostSegments(), each.GetLeastSegments()
	switch {
	case most < 1 || most > maxSegments:
		return Bounds{}, fmt.Errorf("at most %d segments, expected 1 to %d", most, maxSegments)
	case least > most:
		return Bounds{}, fmt.Errorf("at least %d segments and at most %d, expected no more than that", least, most)
	}
	return Bounds{most, least, pace(each.GetPaceBps())}, nil
}

// pace converts to bytes per second, the kernel's unit.
func pace(bps uint64) uint32 {
	bytes := bps / 8
	if bps == 0 || bytes >= uint64(NoPace) {
		return NoPace
	}
	return max(uint32(bytes), 1)
}
