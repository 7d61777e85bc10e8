// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bicast/internal/plural"
	"bicast/mptcp"
)

// removal is the set of addresses whose endpoints this run deletes. Deleting an endpoint closes every subflow from its
// address, the initial one too, and an endpoint cannot stop opening subflows otherwise. The kernel (or a dry run) may
// not have closed the subflows yet.
type removal struct {
	h    *mptcp.Handle
	gone []netip.Addr
}

// dependents counts the live connections that would lose their last established subflow with this address.
func (l *removal) dependents(address netip.Addr) (int, error) {
	users, err := l.h.UsersOf(append(slices.Clone(l.gone), address))
	if err != nil {
		return 0, err
	}
	living := slices.DeleteFunc(users, func(c mptcp.Connection) bool { return !l.isLastPath(c, address) })
	return len(living), nil
}

// isLastPath tells whether this address is a connection's last one, given those that are gone already.
func (l *removal) isLastPath(c mptcp.Connection, address netip.Addr) bool {
	return c.LivesBy(append(slices.Clone(l.gone), address)) && !c.LivesBy(l.gone)
}

// blocker returns the reason to keep an endpoint for now, or "".
func (l *removal) blocker(e endpoint) (string, error) {
	address, err := netip.ParseAddr(e.address)
	if err != nil {
		return "", err
	}
	count, err := l.dependents(address)
	if err != nil {
		return "", err
	}
	if count > 0 {
		return fmt.Sprintf("no other path is left to %s", plural.Of(count, "connection")), nil
	}
	l.gone = append(l.gone, address)
	return "", nil
}

// ErrStillUsed means that Undo kept an endpoint because live connections need it.
var ErrStillUsed = errors.New("not all is undone")

func stillUsedError(left []change) error {
	names := make([]string, 0, len(left))
	for _, c := range left {
		names = append(names, c.Name)
	}
	return fmt.Errorf("%w: %s cannot go: this would close the last path of live connections; run `--undo` again after "+
		"these have ended", ErrStillUsed, strings.Join(names, " and "))
}
