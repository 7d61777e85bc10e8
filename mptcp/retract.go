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

// A retraction takes back what an attempt to open a subflow has made, and says what it did.
type retraction func(change *Change) error

// retractEndpoint makes an address what it was before it became an endpoint. One that the kernel itself had made an
// endpoint of, for a subflow that lives, cannot become that again without closing it.
func (h *Handle) retractEndpoint(before Endpoint, local netip.Addr) retraction {
	return func(change *Change) error {
		if before.Flags&Implicit != 0 {
			return &Error{
				Kind: Refused, What: fmt.Sprintf("%v stays an endpoint: without it, living subflows from there would be closed", local),
				Advice: "`remove` closes them and it",
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
		change.did("%v is no endpoint any more: nothing of it is left", local)
		return nil
	}
}

// openEndpoint makes an endpoint that opens nothing one that does. For that it is made anew, which closes its subflows: where
// one lives, nothing is done.
func (h *Handle) openEndpoint(before Endpoint, device int32, change *Change) (retraction, error) {
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
			Kind: Refused, What: fmt.Sprintf("%v is an endpoint that opens nothing, and making it one that does would close "+
				"the subflows from there of %s", local, plural.Of(len(living), "connection")),
			Advice: "`remove` closes them and it; `add` can open them then",
		}
	}
	opening := before
	opening.Flags |= Initiate
	opening.Interface = cmp.Or(before.Interface, device)
	if err := h.ReplaceEndpoint(before, opening); err != nil {
		return nil, err
	}
	change.didOpen(local)
	return func(change *Change) error {
		if err := h.ReplaceEndpoint(opening, before); err != nil {
			return fmt.Errorf("%v stays an endpoint that opens subflows: %w", local, err)
		}
		change.did("%v is an endpoint that opens nothing, as before", local)
		return nil
	}, nil
}

// addByToken opens a subflow of one connection, which must be under the userspace path manager.
func (h *Handle) addByToken(c Connection, local netip.Addr, remote netip.AddrPort) (retraction, error) {
	if err := h.mustLead(local, remote.Addr()); err != nil {
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
		err := h.closeUnborn(c, local, remote, change)
		if err == nil && !known {
			err = h.forgetAddress(c, local)
		}
		if errors.Is(err, Gone) || errors.Is(err, Reused) { // with the connection all of it went
			return nil
		}
		return err
	}, nil
}

// closeUnborn closes subflows of which the other end has not been heard; the kernel would go on calling it for minutes.
func (h *Handle) closeUnborn(c Connection, local netip.Addr, remote netip.AddrPort, change *Change) error {
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

// forgetAddress makes a connection forget an address of ours that no subflow of it uses.
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

// mustLead refuses an address from which nothing could be sent there; as an endpoint the kernel takes it, and tells nothing.
func (h *Handle) mustLead(local, remote netip.Addr) error {
	if local.Is4() != remote.Is4() {
		return &Error{
			Kind: Refused, What: fmt.Sprintf("no subflow leads from %v to %v, which is of another family", local, remote),
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
	anybodys := local.IsUnspecified() || local.IsMulticast() || local == limitedBroadcast // a socket takes them for ours
	if !anybodys && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return refusal(fmt.Sprintf("whether %v is an address of this namespace cannot be told", local), err)
	}
	return &Error{
		Kind: Refused, What: fmt.Sprintf("%v is no address of this namespace", local), Said: unix.EADDRNOTAVAIL,
		Advice: "`ip address` lists those that are",
	}
}
