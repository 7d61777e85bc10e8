// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Change is what an order did.
type Change struct {
	Manager     PathManager // KernelManager if both occurred: it affects more
	Connections int         // affected ones, unrequested ones included
	Did         []string    // sentences, in order

	made []netip.Addr // new endpoints
}

func (c *Change) did(format string, values ...any) {
	c.Did = append(c.Did, fmt.Sprintf(format, values...))
}

// SubflowPreference names the subflows of a connection to activate and those to leave.
type SubflowPreference struct {
	Connection Connection
	Wanted     []Subflow
	Others     []Subflow
}

// Prefer activates subflows of a connection: it clears their backup flags, then flags the others, so that a path is
// active at every moment. hard is for dead paths: it also closes them and notifies the peer, so that data in flight
// there is retransmitted. Flags that are right already stay.
//
// Under the kernel's path manager it calls PreferEndpoints with the subflows' addresses, which affects other
// connections.
func (h *Handle) Prefer(c Connection, wanted, others []Subflow, hard bool) (Change, error) {
	return h.PreferAll([]SubflowPreference{{c, wanted, others}}, hard)
}

// PreferAll is Prefer for several connections. It switches those under the kernel's path manager together. A failed
// order does not stop the others: errors are joined. One of several connections that has ended is no error.
func (h *Handle) PreferAll(orders []SubflowPreference, hard bool) (Change, error) {
	var change Change
	var byEndpoint []SubflowPreference
	var failures []error
	for _, order := range orders {
		manager, err := h.PathManagerOf(order.Connection)
		switch {
		case err != nil:
		case manager == KernelManager:
			byEndpoint = append(byEndpoint, order)
		default:
			change.Manager = UserspaceManager
			err = h.preferByToken(order, hard, &change)
		}
		failures = append(failures, err)
	}
	if len(byEndpoint) > 0 {
		failures = append(failures, h.preferByEndpoint(byEndpoint, hard, &change)...)
	}
	if len(orders) > 1 {
		failures = slices.DeleteFunc(failures, hasEnded)
	}
	return change, errors.Join(failures...)
}

func hasEnded(err error) bool { return errors.Is(err, Gone) || errors.Is(err, Reused) }

func (h *Handle) preferByEndpoint(orders []SubflowPreference, hard bool, change *Change) []error {
	var wanted, others, now []Subflow
	var failures []error
	var sound []SubflowPreference
	for _, order := range orders {
		c, err := h.Reread(order.Connection)
		found := c.matching(order.Wanted)
		switch {
		case err != nil:
		case len(found) == 0:
			err = noPreferredPath(c)
		case !hard && allHeldByPeer(found): // it would have no active path at all
			err = heldByPeer(c, found[0])
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		sound = append(sound, order)
		now = append(now, found...)
		wanted = append(wanted, order.Wanted...)
		others = append(others, order.Others...)
	}
	if len(sound) == 0 {
		return failures
	}
	change.Manager = KernelManager
	wider := Change{Connections: len(sound)}
	isPreferred, err := h.isPreferred(now, others)
	if err == nil && !isPreferred {
		wider, err = h.PreferEndpoints(localAddresses(wanted), localAddresses(others), hard)
		if !hard { // not if hard: a dead path must come back, although nothing uses it now
			err = errors.Join(err, h.deleteUnused(&wider))
		}
	}
	change.Connections += wider.Connections
	change.Did = append(change.Did, wider.Did...)
	if err != nil {
		return append(failures, err)
	}
	for _, order := range sound {
		if err := h.expectActive(order.Connection, order.Wanted); err != nil && !isTolerable(err, hard) {
			failures = append(failures, err)
		}
	}
	return failures
}

func allHeldByPeer(paths []Subflow) bool {
	return !slices.ContainsFunc(paths, func(s Subflow) bool { return !s.BackupByPeer })
}

// isTolerable tells whether the error is a last path that the peer keeps backup: it carries data anyway.
func isTolerable(err error, hard bool) bool { return hard && errors.Is(err, HeldByPeer) }

func (h *Handle) preferByToken(order SubflowPreference, hard bool, change *Change) error {
	c, err := h.Reread(order.Connection)
	if err != nil {
		return err
	}
	wanted, others := c.matching(order.Wanted), c.matching(order.Others)
	if len(wanted) == 0 {
		return noPreferredPath(c)
	}
	change.Connections++
	if err := h.clear(c, wanted, change); err != nil && !isTolerable(err, hard) {
		return err
	}
	for _, s := range others {
		if s.BackupByUs {
			continue
		}
		switch err := h.SetBackup(c, s, true); {
		case err == nil:
			change.did("%v of %v is backup", s, c)
		case !hard && !errors.Is(err, Gone):
			return err
		}
	}
	if hard {
		return h.closeAll(c, others, change)
	}
	return nil
}

// clear activates at least one of the subflows, or returns an error that names the end which flagged them.
func (h *Handle) clear(c Connection, wanted []Subflow, change *Change) error {
	var held error
	active := 0
	for _, s := range wanted {
		if s.Backup() {
			err := h.SetBackup(c, s, false)
			if errors.Is(err, HeldByPeer) {
				held = err
				continue
			}
			if err != nil {
				return err
			}
			change.did("%v of %v is active", s, c)
		}
		active++
	}
	if active == 0 {
		return held
	}
	return nil
}

// closeAll closes subflows of dead paths. The peer learns of it by address id alone, and then closes every subflow to
// that id. So if another subflow shares the id, the peer is not notified.
func (h *Handle) closeAll(c Connection, dead []Subflow, change *Change) error {
	for _, s := range dead {
		shared := slices.ContainsFunc(c.Subflows, func(other Subflow) bool {
			return other.LocalID == s.LocalID && len(Connection{Subflows: dead}.matching([]Subflow{other})) == 0
		})
		if !shared {
			if err := h.Remove(c, s.LocalID); err != nil {
				change.did("the peer could not be notified that %v is gone: %v", s.Local.Addr(), err)
			}
		}
		// The peer may have closed it already, after REMOVE_ADDR.
		if err := h.Destroy(c, s); err != nil && !errors.Is(err, Gone) {
			return err
		}
		change.did("%v of %v is closed", s, c)
	}
	return nil
}

// expectActive returns an error unless one of a connection's subflows is active now.
func (h *Handle) expectActive(c Connection, wanted []Subflow) error {
	now, err := h.Reread(c)
	if err != nil {
		return err
	}
	paths := now.matching(wanted)
	if len(paths) == 0 {
		return noPreferredPath(now)
	}
	return c.OneActive(paths)
}

// OneActive returns nil if one of the subflows is active, else an error that names the end which flagged them.
func (c Connection) OneActive(paths []Subflow) error {
	for _, s := range paths {
		if !s.Backup() {
			return nil
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if paths[0].BackupByPeer {
		return heldByPeer(c, paths[0])
	}
	return &Error{
		Kind: Indistinguishable, What: fmt.Sprintf("%v of %v stays backup: the kernel's path manager flags the first "+
			"subflow from an address, and this is not it", paths[0], c),
		Advice: "switch at the other end, or have connections made under the userspace path manager",
	}
}

func heldByPeer(c Connection, s Subflow) error {
	return &Error{
		Kind: HeldByPeer, What: fmt.Sprintf("%v of %v stays backup: the other end has flagged it", s, c),
		Advice: "only one end of a connection may switch: clear the flag at the other end, with `bicast mptcp switch` there, or, " +
			"if a controller steers it, with `./bicast switch TERMINAL auto`",
	}
}

// noPreferredPath explains why a connection has none of the preferred paths. A closing one has no subflow at all.
func noPreferredPath(c Connection) error {
	if len(c.Subflows) == 0 {
		return &Error{Kind: Gone, What: fmt.Sprintf("%v has ended", c), Advice: "list again"}
	}
	return noPath(c, "none of the preferred paths is established")
}

func noPath(c Connection, why string) error {
	return &Error{Kind: NoPath, What: fmt.Sprintf("%v: %s", c, why), Advice: "list it again; `add` opens a subflow"}
}

// matching returns the current state of the connection's established subflows among the given ones.
func (c Connection) matching(given []Subflow) []Subflow {
	var found []Subflow
	for _, s := range c.Subflows {
		if s.Established && slices.ContainsFunc(given, s.same) {
			found = append(found, s)
		}
	}
	return found
}

// localAddresses returns the distinct local addresses of subflows.
func localAddresses(subflows []Subflow) []netip.Addr {
	var addresses []netip.Addr
	for _, s := range subflows {
		if !slices.Contains(addresses, s.Local.Addr()) {
			addresses = append(addresses, s.Local.Addr())
		}
	}
	return addresses
}
