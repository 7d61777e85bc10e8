// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"net/netip"
)

// AddressesOf exports addressesOf for tests.
func (h *Handle) AddressesOf(c Connection) ([]Endpoint, error) { return h.addressesOf(c) }

// Await exports await for tests, with events of the test's own.
func (h *Handle) Await(
	ctx context.Context, events <-chan Event, c Connection, local netip.Addr, remote netip.AddrPort,
) (Event, error) {
	return h.await(ctx, events, c, local, remote)
}
