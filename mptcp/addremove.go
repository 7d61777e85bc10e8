// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/plural"
)

// AddSubflow opens a subflow on a live connection and waits until it is established. If that fails or the context ends,
// it undoes the attempt and returns the reason. Under the kernel's path manager our address becomes an endpoint bound
// to its interface: every connection of the namespace then opens a subflow from it, each to its own first remote
// address.
func (h *Handle) AddSubflow(
	ctx context.Context, c Connection, local netip.Addr, remote netip.AddrPort,
) (Change, error) {
	manager, err := h.PathManagerOf(c)
	if err != nil {
		return Change{}, err
	}
	change := Change{Manager: manager, Connections: 1}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := h.Events(ctx)
	if err != nil {
		return change, err
	}
	var retract rollback
	if manager == KernelManager {
		retract, err = h.addByEndpoint(c, local, remote, &change)
	} else {
		retract, err = h.addByToken(c, local, remote)
	}
	if err != nil {
		return change, err
	}
	established, err := h.await(ctx, events, c, local, remote)
	if err != nil {
		return change, errors.Join(err, retract(&change))
	}
	change.did("%v > %v of %v is established", established.Local, established.Remote, c)
	return change, nil
}

// idFor returns the id of our address in a connection, or an unused one if the connection does not know the address.
func (h *Handle) idFor(c Connection, local netip.Addr) (id uint8, known bool, err error) {
	used := map[uint8]bool{0: true}
	for _, s := range c.Subflows {
		if s.Local.Addr() == local {
			return s.LocalID, true, nil
		}
		used[s.LocalID] = true
	}
	addresses, err := h.addressesOf(c)
	if err != nil {
		return 0, false, err
	}
	for _, one := range addresses {
		if one.Address == local {
			return one.ID, true, nil
		}
		used[one.ID] = true
	}
	for id := uint8(1); id < 255; id++ {
		if !used[id] {
			return id, false, nil
		}
	}
	return 0, false, noPath(c, "all address ids (1 to 254) are in use")
}

// addressesOf returns our addresses that a connection under the userspace path manager knows, even without a subflow.
// Kernels before 6.10 return none.
func (h *Handle) addressesOf(c Connection) ([]Endpoint, error) {
	answers, err := h.execute(commandGetEndpoints, netlink.Dump, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeToken, uint32(c.Token))
	})
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, refusal(fmt.Sprintf("cannot read our addresses in %v", c), err)
	}
	found := make([]Endpoint, 0, len(answers))
	for _, answer := range answers {
		known, err := decodeEndpoint(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "cannot decode the kernel's list of addresses", Cause: err}
		}
		known.Address = plainAddress(netip.AddrPortFrom(known.Address, 0)).Addr()
		found = append(found, known)
	}
	return found, nil
}

func (h *Handle) addByEndpoint(
	c Connection, local netip.Addr, remote netip.AddrPort, change *Change,
) (rollback, error) {
	if first := c.Remote(); remote != first {
		return nil, &Error{
			Kind: WrongManager, What: fmt.Sprintf("%v is under the kernel's path manager, which chooses %v as "+
				"the remote address itself", c, first), Advice: "omit the remote address, or announce it at the other end",
		}
	}
	if slices.ContainsFunc(c.Subflows, func(s Subflow) bool {
		return s.Established && s.Local.Addr() == local && s.Remote == remote
	}) {
		return nil, &Error{Kind: Refused, What: fmt.Sprintf("%v has this path already, from %v", c, local)}
	}
	limits, err := h.Limits()
	if err != nil {
		return nil, err
	}
	if c.Extra >= limits.Extra {
		return nil, &Error{
			Kind: LimitReached, What: fmt.Sprintf("%v has %d subflows beside its first, the limit", c, c.Extra),
			Advice: "raise the limit: `bicast mptcp setup`, or `ip mptcp limits set subflows 8`",
		}
	}
	if err := h.checkAddresses(local, remote.Addr()); err != nil {
		return nil, err
	}
	endpoints, err := h.Endpoints()
	if err != nil {
		return nil, err
	}
	device, err := h.deviceOf(local)
	if err != nil {
		return nil, err
	}
	before, is := endpointOf(endpoints, local)
	switch {
	case is && before.Flags&Initiate != 0:
		return nil, &Error{
			Kind: Refused, What: fmt.Sprintf("%v is an endpoint already: the kernel has tried to open this subflow", local),
			Advice: "use `remove` first (it affects every connection with that address), or delete the endpoint",
		}
	case is && before.Flags&Implicit == 0:
		return h.openEndpoint(before, device, change)
	}
	if err := h.AddEndpoint(Endpoint{Address: local, Flags: Initiate, Interface: device}); err != nil {
		return nil, err
	}
	change.recordOpening(local)
	return h.rollbackEndpoint(before, local), nil
}

func (c *Change) recordOpening(local netip.Addr) {
	c.did("%v is an endpoint now: every connection of the namespace under the kernel's path manager opens a subflow from "+
		"it, new connections too", local)
}

// RemoveSubflow closes a subflow of a live connection that has another one. Under the kernel's path manager it deletes
// the endpoint, which closes every subflow of the namespace from that address; it refuses if one is a connection's
// last.
func (h *Handle) RemoveSubflow(c Connection, s Subflow) (Change, error) {
	manager, err := h.PathManagerOf(c)
	if err != nil {
		return Change{}, err
	}
	change := Change{Manager: manager, Connections: 1}
	now, err := h.Reread(c)
	if err != nil {
		return change, err
	}
	going := now.matching([]Subflow{s})
	if len(going) == 0 {
		return change, noPath(c, fmt.Sprintf("%v is not one of its subflows", s))
	}
	if !slices.ContainsFunc(now.Subflows, func(o Subflow) bool { return o.Established && !o.same(s) }) {
		return change, noPath(c, fmt.Sprintf("%v is its only subflow", s))
	}
	if manager == UserspaceManager {
		return change, h.closeAll(now, going, &change)
	}
	if err := h.removeByEndpoint(s.Local.Addr(), &change); err != nil {
		return change, err
	}
	if _, err := h.subflow(c, s); err == nil {
		return change, &Error{
			Kind: Indistinguishable, What: fmt.Sprintf("%v of %v is still open: this kernel does not close a connection's "+
				"first subflow by its endpoint", s, c), Advice: "boot Linux 6.11 or newer, or switch away from it",
		}
	}
	return change, nil
}

func (h *Handle) removeByEndpoint(local netip.Addr, change *Change) error {
	touched, err := h.UsersOf([]netip.Addr{local})
	if err != nil {
		return err
	}
	if alone := dependentOn(touched, []netip.Addr{local}); len(alone) > 0 {
		return &Error{
			Kind: NoPath, What: fmt.Sprintf("this would close every subflow of the namespace from %v, and %v has no other",
				local, alone[0]),
			Advice: "end that connection or give it another path first; `switch` makes a path backup and closes none",
		}
	}
	change.Connections = len(touched)
	endpoint, err := h.ensureEndpoint(local, change)
	if err != nil {
		return err
	}
	if err := h.DeleteEndpoint(endpoint); err != nil {
		return err
	}
	change.did("%v is no longer an endpoint: every subflow of the namespace from it is closed, on %s", local,
		plural.Of(len(touched), "connection"))
	return nil
}

// Remote returns the address that the connection was made to, as far as its subflows show.
func (c Connection) Remote() netip.AddrPort {
	for _, s := range c.Subflows {
		if s.RemoteID == 0 {
			return s.Remote
		}
	}
	if len(c.Subflows) > 0 {
		return c.Subflows[0].Remote
	}
	return netip.AddrPort{}
}
