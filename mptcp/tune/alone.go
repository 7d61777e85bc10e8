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

// For an endpoint that goes, the kernel closes every subflow from its address, the initial one too, and knows no way to
// forget it otherwise: only backup and fullmesh can be changed. Leaving is which addresses have gone in this run, in
// which the kernel, or a dry run, may not have closed their subflows yet.
type leaving struct {
	h    *mptcp.Handle
	gone []netip.Addr
}

// alone counts the live connections that would be left without an established subflow, were this address to go too.
func (l *leaving) alone(address netip.Addr) (int, error) {
	users, err := l.h.UsersOf(append(slices.Clone(l.gone), address))
	if err != nil {
		return 0, err
	}
	living := slices.DeleteFunc(users, func(c mptcp.Connection) bool { return !l.endsWith(c, address) })
	return len(living), nil
}

// endsWith tells whether this address is the last that a connection lives by, when those that have gone are gone.
func (l *leaving) endsWith(c mptcp.Connection, address netip.Addr) bool {
	return c.LivesBy(append(slices.Clone(l.gone), address)) && !c.LivesBy(l.gone)
}

// why says why an endpoint has to stay for now; "" where it may go.
func (l *leaving) why(e endpoint) (string, error) {
	address, err := netip.ParseAddr(e.address)
	if err != nil {
		return "", err
	}
	count, err := l.alone(address)
	if err != nil {
		return "", err
	}
	if count > 0 {
		return fmt.Sprintf("no other path is left to %s", plural.Of(count, "connection")), nil
	}
	l.gone = append(l.gone, address)
	return "", nil
}

// ErrStillUsed is Undo's where live connections need what it would remove.
var ErrStillUsed = errors.New("not all is undone")

func stillUsed(left []change) error {
	names := make([]string, 0, len(left))
	for _, c := range left {
		names = append(names, c.Name)
	}
	return fmt.Errorf("%w: %s cannot go, for the kernel would close the last path of live connections with it: `--undo` "+
		"again when these have ended", ErrStillUsed, strings.Join(names, " and "))
}
