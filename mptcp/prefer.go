package mptcp

import (
	"context"
	"net/netip"
)

// Change is what a switch did.
type Change struct {
	Manager     PathManager
	Connections int      // that it reached, those that nobody asked for among them
	Did         []string // in words, in order
}

// Prefer makes subflows of a connection the active ones: their flags are cleared, then those of the others are set,
// in this order, so that there is an active path at every moment. hard is for others that are dead: they are closed
// too, and the peer is told, so that what is in flight there is sent again.
//
// Under the kernel's path manager this is PreferEndpoints of the subflows' addresses, with its wider reach.
func (h *Handle) Prefer(ctx context.Context, c Connection, wanted, others []Subflow, hard bool) (Change, error) {
	panic("stub")
}

// PreferEndpoints does the same to every connection of the namespace that is under the kernel's path manager, and for
// those to come, by our addresses.
func (h *Handle) PreferEndpoints(ctx context.Context, wanted, others []netip.Addr, hard bool) (Change, error) {
	panic("stub")
}

// AddSubflow opens a subflow on a live connection and waits until it is established; it tells why it is not.
func (h *Handle) AddSubflow(ctx context.Context, c Connection, local netip.Addr, remote netip.AddrPort) (Change, error) {
	panic("stub")
}

// RemoveSubflow closes a subflow of a live connection, which must have another.
func (h *Handle) RemoveSubflow(ctx context.Context, c Connection, s Subflow) (Change, error) {
	panic("stub")
}
