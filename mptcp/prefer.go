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
	Manager     PathManager // the kernel's where both were met: its reach is the wider one
	Connections int         // that it reached, those that nobody asked for among them
	Did         []string    // in words, in order

	made []netip.Addr // that became endpoints
}

func (c *Change) did(format string, values ...any) {
	c.Did = append(c.Did, fmt.Sprintf(format, values...))
}

// SubflowPreference says which subflows of a connection are to be the active ones, and which are to be left.
type SubflowPreference struct {
	Connection Connection
	Wanted     []Subflow
	Others     []Subflow
}

// Prefer makes subflows of a connection the active ones: their flags are cleared, then those of the others are set,
// so that there is an active path at every moment. hard is for others that are dead: they are closed too, and the peer
// is told, so that what is in flight there is sent again. What is so already is not ordered again.
//
// Under the kernel's path manager this is PreferEndpoints of the subflows' addresses, with its wider reach.
func (h *Handle) Prefer(c Connection, wanted, others []Subflow, hard bool) (Change, error) {
	return h.PreferAll([]SubflowPreference{{c, wanted, others}}, hard)
}

// PreferAll is Prefer of several connections. Those under the kernel's path manager are switched together, once. An
// order that fails does not keep the others from being carried out: the errors come joined. That one of several has
// ended meanwhile is none.
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
		failures = slices.DeleteFunc(failures, ended)
	}
	return change, errors.Join(failures...)
}

func ended(err error) bool { return errors.Is(err, Gone) || errors.Is(err, Reused) }

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
			err = lost(c)
		case !hard && allHeld(found): // it would have no active path at all
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
	settled, err := h.settled(now, others)
	if err == nil && !settled {
		wider, err = h.PreferEndpoints(locals(wanted), locals(others), hard)
		if !hard { // a path that was dead is to come back, though nobody uses it now
			err = errors.Join(err, h.unmake(&wider))
		}
	}
	change.Connections += wider.Connections
	change.Did = append(change.Did, wider.Did...)
	if err != nil {
		return append(failures, err)
	}
	for _, order := range sound {
		if err := h.expectActive(order.Connection, order.Wanted); err != nil && !bearable(err, hard) {
			failures = append(failures, err)
		}
	}
	return failures
}

func allHeld(paths []Subflow) bool {
	return !slices.ContainsFunc(paths, func(s Subflow) bool { return !s.BackupByPeer })
}

// bearable is a path that stays backup because of the other end, when it is the last one left: it carries all the same.
func bearable(err error, hard bool) bool { return hard && errors.Is(err, HeldByPeer) }

func (h *Handle) preferByToken(order SubflowPreference, hard bool, change *Change) error {
	c, err := h.Reread(order.Connection)
	if err != nil {
		return err
	}
	wanted, others := c.matching(order.Wanted), c.matching(order.Others)
	if len(wanted) == 0 {
		return lost(c)
	}
	change.Connections++
	if err := h.clear(c, wanted, change); err != nil && !bearable(err, hard) {
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

// clear leaves at least one of the subflows active, or says who holds them.
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

// closeAll closes subflows whose path is dead. The peer hears of it only by an address's id, and it then closes
// everything to that id: where another subflow shares it, the peer is left to find out by itself.
func (h *Handle) closeAll(c Connection, dead []Subflow, change *Change) error {
	for _, s := range dead {
		shared := slices.ContainsFunc(c.Subflows, func(other Subflow) bool {
			return other.LocalID == s.LocalID && len(Connection{Subflows: dead}.matching([]Subflow{other})) == 0
		})
		if !shared {
			if err := h.Remove(c, s.LocalID); err != nil {
				change.did("the peer was not told that %v is gone: %v", s.Local.Addr(), err)
			}
		}
		// The peer may have closed it first, when it was told.
		if err := h.Destroy(c, s); err != nil && !errors.Is(err, Gone) {
			return err
		}
		change.did("%v of %v is closed", s, c)
	}
	return nil
}

// expectActive tells whether one of a connection's subflows is active now.
func (h *Handle) expectActive(c Connection, wanted []Subflow) error {
	now, err := h.Reread(c)
	if err != nil {
		return err
	}
	paths := now.matching(wanted)
	if len(paths) == 0 {
		return lost(now)
	}
	return c.OneActive(paths)
}

// OneActive tells which end keeps all of these subflows backup, if they are.
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
		Advice: "only one end of a connection may switch: have the other end clear it, by `bicast mptcp switch` there, or, " +
			"where a controller steers, by `./bicast switch TERMINAL auto`",
	}
}

// lost is why a connection, as it is now, has none of the paths to prefer: one that is closing has no subflow at all.
func lost(c Connection) error {
	if len(c.Subflows) == 0 {
		return &Error{Kind: Gone, What: fmt.Sprintf("%v has ended", c), Advice: "list again"}
	}
	return noPath(c, "none of the paths to prefer is established")
}

func noPath(c Connection, why string) error {
	return &Error{Kind: NoPath, What: fmt.Sprintf("%v: %s", c, why), Advice: "list it again; `add` opens a subflow"}
}

// matching is those of the connection's established subflows that are among the given ones, as they are now.
func (c Connection) matching(given []Subflow) []Subflow {
	var found []Subflow
	for _, s := range c.Subflows {
		if s.Established && slices.ContainsFunc(given, s.same) {
			found = append(found, s)
		}
	}
	return found
}

// The local addresses of subflows, each once.
func locals(subflows []Subflow) []netip.Addr {
	var addresses []netip.Addr
	for _, s := range subflows {
		if !slices.Contains(addresses, s.Local.Addr()) {
			addresses = append(addresses, s.Local.Addr())
		}
	}
	return addresses
}
