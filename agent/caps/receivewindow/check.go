// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"errors"
	"fmt"
	"time"

	"bicast/api/agentv1"
)

const (
	maxCaps  = 4096 // bpf/receive_window.h
	maxPorts = 256
	minLease = 500 * time.Millisecond
	maxLease = 10 * time.Second
)

// ErrNoGateway is the reason why terminals and relays lower no windows.
var ErrNoGateway = errors.New("only a gateway lowers windows: run an agent of role gateway where terminals' packets pass")

func leaseOf(order *agentv1.Caps) time.Duration {
	return time.Duration(order.GetLeaseMs()) * time.Millisecond
}

func check(order *agentv1.Caps) error {
	switch lease := leaseOf(order); {
	case lease < minLease || lease > maxLease:
		return fmt.Errorf("a lease of %v, expected %v to %v", lease, minLease, maxLease)
	case len(order.GetCaps()) > maxCaps:
		return fmt.Errorf("%d caps, expected %d at most", len(order.GetCaps()), maxCaps)
	case len(order.GetPorts()) == 0:
		return errors.New("caps without a port, expected the ports of the terminals")
	case len(order.GetPorts()) > maxPorts:
		return fmt.Errorf("%d ports, expected %d at most", len(order.GetPorts()), maxPorts)
	}
	named := map[string]bool{"": true}
	for _, port := range order.GetPorts() {
		if named[port] {
			return fmt.Errorf("port name %q is empty or used twice", port)
		}
		named[port] = true
	}
	for _, each := range order.GetCaps() {
		if each.GetMostSegments() == 0 || each.GetLeastSegments() > each.GetMostSegments() {
			return fmt.Errorf("a cap of at most %d and at least %d segments between %s and %s, expected at most >= 1 and at least <= at most",
				each.GetMostSegments(), each.GetLeastSegments(), each.GetTerminalAddress(), each.GetOtherAddress())
		}
	}
	return nil
}
