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
	capsMost    = 4096
	shortest    = 500 * time.Millisecond
	longest     = 10 * time.Second
	segmentsMax = 1 << 20 // more than a window of 1 GiB has
)

// read takes an order apart, or says what is wrong with it.
func read(order *agentv1.Caps) (map[Pair]Bounds, time.Duration, error) {
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	switch {
	case lease < shortest || lease > longest:
		return nil, 0, fmt.Errorf("a lease of %v, expected %v to %v", lease, shortest, longest)
	case len(order.GetCaps()) > capsMost:
		return nil, 0, fmt.Errorf("%d caps, expected at most %d", len(order.GetCaps()), capsMost)
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
		return Pair{}, errors.New("both are one address, expected two hosts")
	case source.Is4() != destination.Is4():
		return Pair{}, errors.New("one address is of IPv4 and the other of IPv6: no connection is between them")
	}
	return Pair{source.As16(), destination.As16()}, nil
}

func address(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return address, fmt.Errorf("%q is no address", text)
	}
	address = address.Unmap()
	if address.Zone() != "" || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() {
		return address, fmt.Errorf("%s is not the address of one host in a network", address)
	}
	return address, nil
}

func boundsOf(each *agentv1.Cap) (Bounds, error) {
	most, least := each.GetMostSegments(), each.GetLeastSegments()
	switch {
	case most < 1 || most > segmentsMax:
		return Bounds{}, fmt.Errorf("at most %d segments, expected 1 to %d", most, segmentsMax)
	case least > most:
		return Bounds{}, fmt.Errorf("at least %d segments and at most %d, expected no more than that", least, most)
	}
	return Bounds{most, least, pace(each.GetPaceBps())}, nil
}

// pace is in bytes a second, as the kernel wants it.
func pace(bps uint64) uint32 {
	bytes := bps / 8
	if bps == 0 || bytes >= uint64(NoPace) {
		return NoPace
	}
	return max(uint32(bytes), 1)
}
