package mptcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// AddSubflow opens a subflow on a live connection and waits until it is established, or the context ends; it tells why
// it is not. Under the kernel's path manager our address becomes an endpoint, and every connection of the namespace
// opens a subflow from it, each to its own first remote address.
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
	if manager == KernelManager {
		err = h.addByEndpoint(c, local, remote, &change)
	} else {
		var id uint8
		if id, err = h.freeID(c, local); err == nil {
			err = h.Create(c, id, local, remote)
		}
	}
	if err != nil {
		return change, err
	}
	established, err := await(ctx, events, c, local, remote)
	if err != nil {
		return change, err
	}
	change.did("%v > %v of %v is established", established.Local, established.Remote, c)
	return change, nil
}

// await returns the event that tells that a subflow is established, or why it will not be.
func await(
	ctx context.Context, events <-chan Event, c Connection, local netip.Addr, remote netip.AddrPort,
) (Event, error) {
	failed := func(why string, said error) (Event, error) {
		return Event{}, &Error{
			Kind: NotEstablished, What: fmt.Sprintf("no subflow %v > %v came to be on %v: %s", local, remote, c, why), Said: said,
			Advice: "the other end, or something on the way, does not take joins there: try `ping -I` from that " +
				"address, and look at the other end's limits",
		}
	}
	for {
		select {
		case event, more := <-events:
			ours := more && event.Token == c.Token
			there := ours && event.Local.Addr() == local && event.Remote == remote
			switch {
			case !more && ctx.Err() == nil:
				return failed("the kernel stopped telling", nil)
			case !more:
				return failed("nothing was heard of it in time", nil)
			case ours && event.Kind == ConnectionClosed:
				return Event{}, &Error{Kind: Gone, What: fmt.Sprintf("%v has ended", c), Advice: "list again"}
			case there && event.Kind == SubflowEstablished:
				return event, nil
			case there && event.Kind == SubflowClosed && event.ResetReason != 0:
				return failed(fmt.Sprintf("the other end reset it, with reason %d of RFC 8684", event.ResetReason), nil)
			case there && event.Kind == SubflowClosed && event.Errno != 0:
				return failed("it was closed", event.Errno)
			case there && event.Kind == SubflowClosed:
				return failed("it was closed", nil)
			}
		case <-ctx.Done():
			return failed("nothing was heard of it in time", nil)
		}
	}
}

// freeID is the id that our address has in a connection, or one that none has.
func (h *Handle) freeID(c Connection, local netip.Addr) (uint8, error) {
	used := map[uint8]bool{0: true}
	for _, s := range c.Subflows {
		if s.Local.Addr() == local {
			return s.LocalID, nil
		}
		used[s.LocalID] = true
	}
	// Addresses that the connection knows although no subflow is left there; kernels before 6.10 do not tell.
	answers, err := h.execute(commandGetEndpoints, netlink.Dump, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeToken, uint32(c.Token))
	})
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return 0, refusal(fmt.Sprintf("our addresses in %v cannot be read", c), err)
	}
	for _, answer := range answers {
		known, err := decodeEndpoint(answer.Data)
		if err != nil {
			return 0, &Error{Kind: Malformed, What: "the kernel's addresses cannot be read", Said: err}
		}
		if plainAddress(netip.AddrPortFrom(known.Address, 0)).Addr() == local {
			return known.ID, nil
		}
		used[known.ID] = true
	}
	for id := uint8(1); id < 255; id++ {
		if !used[id] {
			return id, nil
		}
	}
	return 0, noPath(c, "all 255 ids for addresses are used")
}

func (h *Handle) addByEndpoint(c Connection, local netip.Addr, remote netip.AddrPort, change *Change) error {
	if first := c.Remote(); remote != first {
		return &Error{
			Kind: WrongManager, What: fmt.Sprintf("%v is under the kernel's path manager, which itself chooses %v as "+
				"the other end", c, first), Advice: "give no remote address, or announce that one at the other end",
		}
	}
	limits, err := h.Limits()
	if err != nil {
		return err
	}
	if c.Extra >= limits.Extra {
		return &Error{
			Kind: LimitReached, What: fmt.Sprintf("%v has %d subflows beside its first, and no more are allowed", c, c.Extra),
			Advice: "raise the limit: `bicast mptcp setup`, or `ip mptcp limits set subflows 8`",
		}
	}
	if err := h.AddEndpoint(Endpoint{Address: local, Flags: Initiate}); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return &Error{
				Kind: Refused, What: fmt.Sprintf("%v is an endpoint already, so the kernel has tried it", local), Said: err,
				Advice: "`remove` it first, which reaches every connection that uses it, or delete the endpoint",
			}
		}
		return err
	}
	change.did("%v is an endpoint: every connection of the namespace under the kernel's path manager opens a subflow "+
		"from it, those to come too", local)
	return nil
}

// RemoveSubflow closes a subflow of a live connection, which must have another. Under the kernel's path manager the
// endpoint goes, and with it every subflow of the namespace from that address.
func (h *Handle) RemoveSubflow(c Connection, s Subflow) (Change, error) {
	manager, err := h.PathManagerOf(c)
	if err != nil {
		return Change{}, err
	}
	change := Change{Manager: manager, Connections: 1}
	now, err := h.Again(c)
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
	touched, err := h.usersOf([]netip.Addr{local})
	if err != nil {
		return err
	}
	change.Connections = len(touched)
	endpoint, err := h.ensureEndpoint(local, change)
	if err != nil {
		return err
	}
	if err := h.DeleteEndpoint(endpoint); err != nil {
		return err
	}
	change.did("%v is no endpoint any more: every subflow of the namespace from it is closed, on %d connections",
		local, len(touched))
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
