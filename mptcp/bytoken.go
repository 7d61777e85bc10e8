// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The orders of this file reach one connection, by its token, and only one under the userspace path manager. Each first
// asks whether the token still is this connection's: a token that is free again goes to another.

// SetBackup sets or clears our flag of one subflow and tells the peer (MP_PRIO). When the peer has flagged it too, it
// stays backup for both directions, and clearing returns HeldByPeer; our own flag is cleared then.
func (h *Handle) SetBackup(c Connection, s Subflow, backup bool) error {
	if err := h.setFlag(c, s, backup); err != nil || backup {
		return err
	}
	now, err := h.subflow(c, s)
	if err != nil {
		return err
	}
	if now.BackupByPeer {
		return heldByPeer(c, s)
	}
	return nil
}

func (h *Handle) setFlag(c Connection, s Subflow, backup bool) error {
	local := s.endpoint(s.Local)
	if backup {
		local.Flags = Backup
	}
	return h.order(c, s, commandSetFlags, s.String(), "could not be flagged", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, local)
		encodeEndpoint(to, attributeRemote, s.endpoint(s.Remote))
	})
}

// Create opens a subflow between two addresses and returns when its SYN is on its way; see AddSubflow for one that
// waits. Our address must not yet have another id in this connection, nor the id another address.
func (h *Handle) Create(c Connection, id uint8, local netip.Addr, remote netip.AddrPort) error {
	what := fmt.Sprintf("a subflow %v > %v", local, remote)
	return h.order(c, Subflow{}, commandCreate, what, "could not be opened", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, Endpoint{ID: id, Address: local})
		encodeEndpoint(to, attributeRemote, Endpoint{Address: remote.Addr(), Port: remote.Port()})
	})
}

// Destroy closes a subflow at once; what is in flight on it is sent again on another. On a path that is dead the peer
// does not learn of it: Remove tells it by the other subflows.
func (h *Handle) Destroy(c Connection, s Subflow) error {
	return h.order(c, s, commandDestroy, s.String(), "could not be closed", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, s.endpoint(s.Local))
		encodeEndpoint(to, attributeRemote, s.endpoint(s.Remote))
	})
}

// Remove tells the peer that one of our addresses is gone (REMOVE_ADDR): it closes EVERY subflow of the connection to
// the address with that id. Ours are not closed.
func (h *Handle) Remove(c Connection, localID uint8) error {
	what := fmt.Sprintf("our address with id %d", localID)
	return h.order(c, Subflow{}, commandRemove, what, "could not be taken back", func(to *netlink.AttributeEncoder) {
		to.Uint8(attributeLocalID, localID)
	})
}

// PathManagerOf asks the kernel which path manager a live connection is under. There is no question for it: the order
// to close a subflow that no connection can have says "no such subflow" under the userspace path manager alone.
func (h *Handle) PathManagerOf(c Connection) (PathManager, error) {
	if err := h.verify(c); err != nil {
		return UnknownManager, err
	}
	return h.managerOf(c)
}

// managerOf takes it for granted that the connection lives: one that has ended seems to be the kernel's.
func (h *Handle) managerOf(c Connection) (PathManager, error) {
	nowhere := Endpoint{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 9} // "discard", to itself
	_, err := h.execute(commandDestroy, netlink.Acknowledge, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeToken, uint32(c.Token))
		encodeEndpoint(to, attributeAddress, nowhere)
		encodeEndpoint(to, attributeRemote, nowhere)
	})
	switch {
	case errors.Is(err, unix.ESRCH):
		return UserspaceManager, nil
	case errors.Is(err, unix.EINVAL):
		return KernelManager, nil
	default:
		return UnknownManager, refusal(fmt.Sprintf("the path manager of %v cannot be told", c), err)
	}
}

// order gives an order about one subflow of a connection and explains a refusal.
func (h *Handle) order(
	c Connection, s Subflow, command uint8, about, failure string, encode func(*netlink.AttributeEncoder),
) error {
	if err := h.verify(c); err != nil {
		return err
	}
	_, err := h.execute(command, netlink.Acknowledge, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeToken, uint32(c.Token))
		encode(to)
	})
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("%s of %v %s", about, c, failure)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ESRCH) {
		return refusal(what, err)
	}
	manager, unclear := h.PathManagerOf(c)
	if unclear != nil {
		return unclear // the connection ended meanwhile, most likely
	}
	if manager == KernelManager {
		return &Error{
			Kind: WrongManager, What: what + ": it is under the kernel's path manager, which takes no order by token",
			Said: err, Advice: "switch by endpoint, or set net.mptcp.pm_type=1 before connections are made",
		}
	}
	if s.Cookie != 0 {
		if _, gone := h.subflow(c, s); gone != nil {
			return gone
		}
	}
	return refusal(what, err)
}
