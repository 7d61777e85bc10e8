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

// AddSubflow opens a subflow on a live connection and waits until it is established, or the context ends; it tells why
// it is not, and leaves nothing of the attempt then. Under the kernel's path manager our address becomes an endpoint that
// is bound to its interface, and every connection of the namespace opens a subflow from it, each to its own first remote
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
	var retract retraction
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

// idFor is the id that our address has in a connection, which knows it then, or one that none has.
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
	return 0, false, noPath(c, "all 255 ids for addresses are used")
}

// addressesOf is what a connection under the userspace path manager knows of our addresses, also where no subflow is left;
// kernels before 6.10 do not tell.
func (h *Handle) addressesOf(c Connection) ([]Endpoint, error) {
	answers, err := h.execute(commandGetEndpoints, netlink.Dump, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeToken, uint32(c.Token))
	})
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, refusal(fmt.Sprintf("our addresses in %v cannot be read", c), err)
	}
	found := make([]Endpoint, 0, len(answers))
	for _, answer := range answers {
		known, err := decodeEndpoint(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "the kernel's addresses cannot be read", Said: err}
		}
		known.Address = plainAddress(netip.AddrPortFrom(known.Address, 0)).Addr()
		found = append(found, known)
	}
	return found, nil
}

func (h *Handle) addByEndpoint(
	c Connection, local netip.Addr, remote netip.AddrPort, change *Change,
) (retraction, error) {
	if first := c.Remote(); remote != first {
		return nil, &Error{
			Kind: WrongManager, What: fmt.Sprintf("%v is under the kernel's path manager, which itself chooses %v as "+
				"the other end", c, first), Advice: "give no remote address, or announce that one at the other end",
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
			Kind: LimitReached, What: fmt.Sprintf("%v has %d subflows beside its first, and no more are allowed", c, c.Extra),
			Advice: "raise the limit: `bicast mptcp setup`, or `ip mptcp limits set subflows 8`",
		}
	}
	if err := h.mustLead(local, remote.Addr()); err != nil {
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
			Kind: Refused, What: fmt.Sprintf("%v is an endpoint already, so the kernel has tried it", local),
			Advice: "`remove` it first, which reaches every connection that uses it, or delete the endpoint",
		}
	case is && before.Flags&Implicit == 0:
		return h.openEndpoint(before, device, change)
	}
	if err := h.AddEndpoint(Endpoint{Address: local, Flags: Initiate, Interface: device}); err != nil {
		return nil, err
	}
	change.didOpen(local)
	return h.retractEndpoint(before, local), nil
}

func (c *Change) didOpen(local netip.Addr) {
	c.did("%v is an endpoint: every connection of the namespace under the kernel's path manager opens a subflow from it, "+
		"those to come too", local)
}

// RemoveSubflow closes a subflow of a live connection, which must have another. Under the kernel's path manager the
// endpoint goes, and with it every subflow of the namespace from that address: of which none may be a connection's last.
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
		return change, noPath(c, fmt.Sprintf("%v is its only subflow, and without one it stands still", s))
	}
	if manager == UserspaceManager {
		return change, h.closeAll(now, going, &change)
	}
	if err := h.removeByEndpoint(s.Local.Addr(), &change); err != nil {
		return change, err
	}
	if _, err := h.subflow(c, s); err == nil {
		return change, &Error{
			Kind: Indistinguishable, What: fmt.Sprintf("%v of %v stayed: this kernel does not close a connection's "+
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
	if alone := onlyBy(touched, []netip.Addr{local}); len(alone) > 0 {
		return &Error{
			Kind: NoPath, What: fmt.Sprintf("every subflow of the namespace from %v would be closed, and %v has no other",
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
	change.did("%v is no endpoint any more: every subflow of the namespace from it is closed, on %s", local,
		plural.Of(len(touched), "connection"))
	return nil
}

// Remote is the other end that the connection was made with, as far as its subflows tell.
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
