// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"bicast/internal/plural"
)

// A rollback undoes a failed attempt to open a subflow and records what it did.
type rollback func(change *Change) error

// rollbackEndpoint restores the state before an address became an endpoint. An implicit endpoint, which the kernel
// makes for a live subflow, cannot be restored without closing that.
func (h *Handle) rollbackEndpoint(before Endpoint, local netip.Addr) rollback {
	return func(change *Change) error {
		if before.Flags&Implicit != 0 {
			return &Error{
				Kind: Refused, What: fmt.Sprintf("%v stays an endpoint: deleting it would close live subflows from there", local),
				Advice: "`remove` closes them and deletes it",
			}
		}
		endpoints, err := h.Endpoints()
		if err != nil {
			return fmt.Errorf("%v stays an endpoint: %w", local, err)
		}
		made, is := endpointOf(endpoints, local)
		if !is {
			return nil
		}
		if err := h.DeleteEndpoint(made); err != nil {
			return fmt.Errorf("%v stays an endpoint: %w", local, err)
		}
		change.did("%v is no longer an endpoint", local)
		return nil
	}
}

// openEndpoint replaces an endpoint that opens no subflows by one that does. That closes its subflows, so it refuses if
// one lives.
func (h *Handle) openEndpoint(before Endpoint, device int32, change *Change) (rollback, error) {
	local := before.Address
	users, err := h.UsersOf([]netip.Addr{local})
	if err != nil {
		return nil, err
	}
	living := slices.DeleteFunc(users, func(c Connection) bool {
		return !slices.ContainsFunc(c.Subflows, func(s Subflow) bool { return s.Established && s.Local.Addr() == local })
	})
	if len(living) > 0 {
		return nil, &Error{
			Kind: Refused, What: fmt.Sprintf("%v is an endpoint that opens nothing, and replacing it would close the live "+
				"subflows from there of %s", local, plural.Of(len(living), "connection")),
			Advice: "`remove` closes them and deletes it; then `add` can open a new one",
		}
	}
	opening := before
	opening.Flags |= Initiate
	opening.Interface = cmp.Or(before.Interface, device)
	if err := h.ReplaceEndpoint(before, opening); err != nil {
		return nil, err
	}
	change.recordOpening(local)
	return func(change *Change) error {
		if err := h.ReplaceEndpoint(opening, before); err != nil {
			return fmt.Errorf("%v stays an endpoint that opens subflows: %w", local, err)
		}
		change.did("%v is an endpoint that opens nothing, as before", local)
		return nil
	}, nil
}

// addByToken opens a subflow of one connection under the userspace path manager.
func (h *Handle) addByToken(c Connection, local netip.Addr, remote netip.AddrPort) (rollback, error) {
	if err := h.checkAddresses(local, remote.Addr()); err != nil {
		return nil, err
	}
	id, known, err := h.idFor(c, local)
	if err != nil {
		return nil, err
	}
	if err := h.Create(c, id, local, remote); err != nil {
		return nil, err
	}
	return func(change *Change) error {
		err := h.closeUnanswered(c, local, remote, change)
		if err == nil && !known {
			err = h.forgetAddress(c, local)
		}
		if errors.Is(err, Gone) || errors.Is(err, Reused) { // everything ended with the connection
			return nil
		}
		return err
	}, nil
}

// closeUnanswered closes subflows whose SYN has no answer; the kernel would retransmit it for minutes.
func (h *Handle) closeUnanswered(c Connection, local netip.Addr, remote netip.AddrPort, change *Change) error {
	connections, err := h.Subflows()
	if err != nil {
		return err
	}
	for _, now := range connections {
		if now.Token != c.Token {
			continue
		}
		for _, s := range now.Subflows {
			if s.Established || s.Local.Addr() != local || s.Remote != remote {
				continue
			}
			if err := h.Destroy(c, s); err != nil {
				return err
			}
			change.did("%v of %v is closed", s, c)
		}
	}
	return nil
}

// forgetAddress withdraws an address of ours that no subflow of the connection uses.
func (h *Handle) forgetAddress(c Connection, local netip.Addr) error {
	known, err := h.addressesOf(c)
	if err != nil {
		return err
	}
	for _, one := range known {
		if one.Address == local {
			return h.Remove(c, one.ID)
		}
	}
	return nil
}

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// checkAddresses refuses an address that cannot send to the remote. The kernel would accept it as an endpoint without
// an error.
func (h *Handle) checkAddresses(local, remote netip.Addr) error {
	if local.Is4() != remote.Is4() {
		return &Error{
			Kind: Refused, What: fmt.Sprintf("%v and %v are of different address families", local, remote),
			Advice: "give an address of the other end's family",
		}
	}
	err := h.Do(func() error {
		held, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
		if err != nil {
			return err
		}
		return held.Close()
	})
	anybodys := local.IsUnspecified() || local.IsMulticast() || local == limitedBroadcast // a socket accepts these as local
	if !anybodys && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return refusal(fmt.Sprintf("cannot check whether %v is an address of this namespace", local), err)
	}
	return &Error{
		Kind: Refused, What: fmt.Sprintf("%v is not an address of this namespace", local), Cause: unix.EADDRNOTAVAIL,
		Advice: "see `ip address`",
	}
}
