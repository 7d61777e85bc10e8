// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"bicast/internal/plural"
)

// PreferEndpoints makes the kernel's path manager prefer some of our addresses over others, for every connection under
// it, present and future. An address without an endpoint gets one that opens no subflows. Change is empty if all flags
// were right already. hard is for dead paths: it also closes their subflows, notifies the peers and lets the kernel
// reopen them as backup. If a connection has no other path, only flags change, as without hard: its peer might refuse
// the new subflow.
func (h *Handle) PreferEndpoints(wanted, others []netip.Addr, hard bool) (Change, error) {
	change := Change{Manager: KernelManager}
	for _, address := range wanted {
		if slices.Contains(others, address) {
			return change, &Error{
				Kind: Indistinguishable, What: fmt.Sprintf("the path to prefer and one to leave share our address %v, "+
					"and the kernel's path manager distinguishes paths by address alone", address),
				Advice: "switch at the other end, or have connections made under the userspace path manager",
			}
		}
	}
	addresses := append(slices.Clone(wanted), others...)
	var touched []Connection
	var err error
	if hard { // read before the subflows are closed; without hard, the switch does not wait for this
		if touched, err = h.UsersOf(addresses); err != nil {
			return change, err
		}
		if alone := dependentOn(touched, others); len(alone) > 0 {
			change.did("%v is not closed: %s there had no other path, %v for one", addressList(others),
				plural.Of(len(alone), "connection"), alone[0])
			hard = false
		}
	}
	for _, address := range wanted {
		if err := h.flagAddress(address, false, &change); err != nil {
			return change, err
		}
	}
	for _, address := range others {
		if err := h.flagAddress(address, true, &change); err != nil {
			return change, err
		}
		if hard {
			if err := h.reopen(address, touched, &change); err != nil {
				return change, err
			}
		}
	}
	if !hard {
		if touched, err = h.UsersOf(addresses); err != nil {
			return change, err
		}
	}
	change.Connections = len(touched)
	if len(change.Did) == 0 {
		return change, nil
	}
	change.did("the kernel's path manager works by address: this reached every connection of the namespace from %v, %d "+
		"in all, and applies to new ones", addressList(addresses), len(touched))
	return change, nil
}

// isPreferred tells whether the wanted subflows are preferred already: there is no other subflow to leave, and
// neither a wanted subflow nor its address's endpoint has our backup flag. PreferEndpoints would then only add
// endpoints.
func (h *Handle) isPreferred(wanted, others []Subflow) (bool, error) {
	if len(others) > 0 || slices.ContainsFunc(wanted, func(s Subflow) bool { return s.BackupByUs }) {
		return false, nil
	}
	endpoints, err := h.Endpoints()
	for _, address := range localAddresses(wanted) {
		if endpoint, _ := endpointOf(endpoints, address); endpoint.Flags&Backup != 0 {
			return false, err
		}
	}
	return err == nil, err
}

func (h *Handle) flagAddress(address netip.Addr, backup bool, change *Change) error {
	endpoint, err := h.ensureEndpoint(address, change)
	if err != nil {
		return err
	}
	if (endpoint.Flags&Backup != 0) == backup {
		return nil
	}
	if err := h.FlagEndpoint(endpoint, backup); err != nil {
		return err
	}
	change.did("endpoint %d, %v, is %s", endpoint.ID, address, map[bool]string{true: "backup", false: "active"}[backup])
	return nil
}

// ensureEndpoint returns the endpoint of an address. If there is none, it adds one without flags: no subflow opens.
func (h *Handle) ensureEndpoint(address netip.Addr, change *Change) (Endpoint, error) {
	for {
		endpoints, err := h.Endpoints()
		if err != nil {
			return Endpoint{}, err
		}
		if endpoint, is := endpointOf(endpoints, address); is {
			return endpoint, nil
		}
		if err := h.AddEndpoint(Endpoint{Address: address}); err != nil {
			return Endpoint{}, err
		}
		change.made = append(change.made, address)
		change.did("%v is an endpoint now, one that opens no subflows", address)
	}
}

// deleteUnused deletes the endpoints that a change made for addresses without subflows: another process closed the
// subflows meanwhile.
func (h *Handle) deleteUnused(change *Change) error {
	for _, address := range change.made {
		users, err := h.UsersOf([]netip.Addr{address})
		if err != nil {
			return err
		}
		if len(users) > 0 {
			continue
		}
		if err := h.rollbackEndpoint(Endpoint{}, address)(change); err != nil {
			return err
		}
	}
	return nil
}

// reopen closes the subflows from an address and lets the kernel open new ones once the path works. It deletes the
// endpoint by id: deleted by address, the kernel would also close connections that fell back to plain TCP.
func (h *Handle) reopen(address netip.Addr, touched []Connection, change *Change) error {
	endpoint, err := h.ensureEndpoint(address, change)
	if err != nil {
		return err
	}
	again := endpoint
	again.Flags = endpoint.Flags&^Implicit | Backup
	again.ID = 0 // the kernel assigns a free one
	if endpoint.Flags&(Initiate|Signal) == 0 && slices.ContainsFunc(touched, func(c Connection) bool { return !c.Serves }) {
		device, err := h.deviceOf(address)
		if err != nil {
			return err
		}
		again.Flags |= Initiate
		again.Interface = cmp.Or(again.Interface, device)
	}
	err = h.ReplaceEndpoint(endpoint, again)
	// EEXIST: another process has just made a plain endpoint of this address; replace it.
	for tries := 1; tries < 3 && errors.Is(err, unix.EEXIST); tries++ {
		if endpoint, err = h.ensureEndpoint(address, change); err == nil {
			err = h.ReplaceEndpoint(endpoint, again)
		}
	}
	if err != nil {
		return err
	}
	change.did("every subflow from %v is closed", address)
	if again.Flags&Initiate != 0 {
		change.did("from now on the kernel tries to open backup subflows from %v", address)
	}
	return nil
}

// dependentOn returns the connections whose established subflows all use these addresses.
func dependentOn(connections []Connection, addresses []netip.Addr) []Connection {
	return slices.DeleteFunc(slices.Clone(connections), func(c Connection) bool { return !c.LivesBy(addresses) })
}

// LivesBy tells whether a connection has established subflows, all of them from these addresses of ours.
func (c Connection) LivesBy(addresses []netip.Addr) bool {
	lives := false
	for _, s := range c.Subflows {
		if s.Established && !slices.Contains(addresses, s.Local.Addr().WithZone("")) {
			return false
		}
		lives = lives || s.Established
	}
	return lives
}

// UsersOf returns the connections under the kernel's path manager with a subflow from one of our addresses. Deleting
// the endpoint closes these subflows.
func (h *Handle) UsersOf(addresses []netip.Addr) ([]Connection, error) {
	connections, err := h.Connections()
	if err != nil {
		return nil, err
	}
	var users []Connection
	for _, c := range connections {
		if c.Token == 0 || !slices.ContainsFunc(c.Subflows, func(s Subflow) bool {
			return slices.Contains(addresses, s.Local.Addr().WithZone(""))
		}) {
			continue
		}
		manager, err := h.managerOf(c)
		if err != nil {
			return nil, err
		}
		if manager == KernelManager {
			users = append(users, c)
		}
	}
	return users, nil
}

func addressList(addresses []netip.Addr) string {
	text := ""
	for i, address := range addresses {
		switch {
		case i == 0:
		case i == len(addresses)-1:
			text += " or "
		default:
			text += ", "
		}
		text += address.String()
	}
	return text
}
