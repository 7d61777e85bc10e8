// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"errors"
	"fmt"
	"time"

	"bicast/api/agentv1"
)

const (
	capsMost   = 4096 // bpf/receive_window.h
	portsMost  = 256
	leaseLeast = 500 * time.Millisecond
	leaseMost  = 10 * time.Second
)

// ErrNoGateway is why a terminal and a relay lower no windows.
var ErrNoGateway = errors.New("windows are lowered where terminals' packets pass: run an agent of role gateway there")

func leaseOf(order *agentv1.Caps) time.Duration {
	return time.Duration(order.GetLeaseMs()) * time.Millisecond
}

func check(order *agentv1.Caps) error {
	switch lease := leaseOf(order); {
	case lease < leaseLeast || lease > leaseMost:
		return fmt.Errorf("a lease of %v, expected %v to %v", lease, leaseLeast, leaseMost)
	case len(order.GetCaps()) > capsMost:
		return fmt.Errorf("%d caps, expected %d at most", len(order.GetCaps()), capsMost)
	case len(order.GetPorts()) == 0:
		return errors.New("caps without a port: a gateway holds them where its terminals are")
	case len(order.GetPorts()) > portsMost:
		return fmt.Errorf("%d ports, expected %d at most", len(order.GetPorts()), portsMost)
	}
	named := map[string]bool{"": true}
	for _, port := range order.GetPorts() {
		if named[port] {
			return fmt.Errorf("the port %q is named twice, or not at all", port)
		}
		named[port] = true
	}
	for _, each := range order.GetCaps() {
		if each.GetMostSegments() == 0 || each.GetLeastSegments() > each.GetMostSegments() {
			return fmt.Errorf("a cap of %d segments at most and %d at least between %s and %s, expected 1 or more, and no less at most than at least",
				each.GetMostSegments(), each.GetLeastSegments(), each.GetTerminalAddress(), each.GetOtherAddress())
		}
	}
	return nil
}
