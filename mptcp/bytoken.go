// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The functions of this file work on one connection under the userspace path manager. Each first checks that the token
// still belongs to the connection: the kernel reuses tokens.

// SetBackup sets or clears our backup flag of one subflow and notifies the peer (MP_PRIO). If the peer has flagged it
// too, clearing returns HeldByPeer: our flag is cleared, but the subflow stays backup in both directions.
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
	return h.order(c, s, commandSetFlags, s.String(), "cannot be flagged", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, local)
		encodeEndpoint(to, attributeRemote, s.endpoint(s.Remote))
	})
}

// Create starts a subflow between two addresses and returns when its SYN is sent; AddSubflow also waits. Within the
// connection, our address must not have another id, nor the id another address.
func (h *Handle) Create(c Connection, id uint8, local netip.Addr, remote netip.AddrPort) error {
	what := fmt.Sprintf("a subflow %v > %v", local, remote)
	return h.order(c, Subflow{}, commandCreate, what, "cannot be opened", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, Endpoint{ID: id, Address: local})
		encodeEndpoint(to, attributeRemote, Endpoint{Address: remote.Addr(), Port: remote.Port()})
	})
}

// Destroy closes a subflow at once; the kernel retransmits its data in flight on another. On a dead path the peer does
// not notice: call Remove, which uses the other subflows.
func (h *Handle) Destroy(c Connection, s Subflow) error {
	return h.order(c, s, commandDestroy, s.String(), "cannot be closed", func(to *netlink.AttributeEncoder) {
		encodeEndpoint(to, attributeAddress, s.endpoint(s.Local))
		encodeEndpoint(to, attributeRemote, s.endpoint(s.Remote))
	})
}

// Remove notifies the peer that one of our addresses is gone (REMOVE_ADDR). The peer closes EVERY subflow of the
// connection to the address with that id. Our side stays open.
func (h *Handle) Remove(c Connection, localID uint8) error {
	what := fmt.Sprintf("our address with id %d", localID)
	return h.order(c, Subflow{}, commandRemove, what, "cannot be withdrawn", func(to *netlink.AttributeEncoder) {
		to.Uint8(attributeLocalID, localID)
	})
}

// PathManagerOf returns the path manager of a live connection. The kernel has no query for it, so this orders to
// destroy an impossible subflow: only the userspace path manager answers ESRCH.
func (h *Handle) PathManagerOf(c Connection) (PathManager, error) {
	if err := h.verify(c); err != nil {
		return UnknownManager, err
	}
	return h.managerOf(c)
}

// managerOf expects a live connection: an ended one looks like the kernel's.
func (h *Handle) managerOf(c Connection) (PathManager, error) {
	nowhere := Endpoint{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 9} // the discard port on loopback
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
		return UnknownManager, refusal(fmt.Sprintf("cannot determine the path manager of %v", c), err)
	}
}

// order sends an order about one subflow of a connection and explains a refusal.
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
		return unclear // probably the connection ended meanwhile
	}
	if manager == KernelManager {
		return &Error{
			Kind: WrongManager, What: what + ": it is under the kernel's path manager, which accepts no orders by token",
			Cause: err, Advice: "switch by endpoint, or set net.mptcp.pm_type=1 before connections are made",
		}
	}
	if s.Cookie != 0 {
		if _, gone := h.subflow(c, s); gone != nil {
			return gone
		}
	}
	return refusal(what, err)
}
