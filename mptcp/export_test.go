// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"net/netip"
)

// AddressesOf is for tests: what a connection under the userspace path manager knows of our addresses.
func (h *Handle) AddressesOf(c Connection) ([]Endpoint, error) { return h.addressesOf(c) }

// Await is for tests: it is told of these events.
func (h *Handle) Await(
	ctx context.Context, events <-chan Event, c Connection, local netip.Addr, remote netip.AddrPort,
) (Event, error) {
	return h.await(ctx, events, c, local, remote)
}
