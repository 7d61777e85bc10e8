// SPDX-License-Identifier: Apache-2.0

package clamp

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"bicast/agent/caps"
	"bicast/internal/cgroupbpf"
	"bicast/internal/claim"
	"bicast/internal/clock"
)

// leftovers are to be looked for by who has the claim: then nobody living has programs for this namespace.
func leftovers(root *os.File, netns uint64) (*cgroupbpf.Found, error) {
	return leftAt(root, netns, clock.Monotonic())
}

func leftAt(root *os.File, netns uint64, now time.Duration) (*cgroupbpf.Found, error) {
	found, err := cgroupbpf.Find(root, called)
	if err == nil {
		found.Left(netns, now, whose)
	}
	return found, err
}

func whose(program *cgroupbpf.Program) (cgroupbpf.Whose, error) {
	var settings caps.Settings
	if err := program.Read("settings", &settings); err != nil {
		return cgroupbpf.Whose{}, err
	}
	spec, err := specification()
	if err != nil {
		return cgroupbpf.Whose{}, err
	}
	return cgroupbpf.Whose{
		Netns: settings.Netns, TendedUntil: time.Duration(settings.TendedUntilNS), Strange: !program.Has(holdings, spec.Maps[holdings]),
	}, nil
}

// Release takes away what killed agents left of the namespace that it is called in, and lets go what that still holds; and
// anywhere what nobody has tended for long. Blind: it may not look at all that there is.
func Release() (gone int, blind bool, err error) {
	netns, err := caps.Cookie()
	if err != nil {
		return 0, false, err
	}
	root, err := openRoot()
	if errors.Is(err, errNoRoot) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer root.Close()
	mine, refused := take()
	if refused == nil {
		defer mine.Close()
	}
	left, err := leftovers(root, netns)
	if err != nil {
		return 0, false, err
	}
	defer left.Close()
	if refused != nil { // an agent lives, and the youngest is its own
		its := left.Youngest(netns, whose)
		left.Keep(func(each *cgroupbpf.Program) bool { return each != its })
	}
	gone, err = takeAway(left, nil)
	return gone, left.Blind, err
}

// takeAway lets go what killed agents' programs held, but for what the next goes on to hold. Only when they have gone, or they
// would hold it again.
func takeAway(left *cgroupbpf.Found, inherited *cgroupbpf.Program) (gone int, err error) {
	gone, err = left.TakeAway()
	for _, each := range left.Programs {
		if each != inherited {
			err = errors.Join(err, letGo(each.Maps[holdings]))
		}
	}
	return gone, err
}

// letGo lets the sockets of this namespace go that are remembered.
func letGo(remembered *ebpf.Map) error {
	p, err := load(remembered)
	if err != nil {
		return err
	}
	p.letting, err = link.AttachIter(link.IterOptions{Program: p.objects.LetGo})
	return errors.Join(err, p.Close())
}

func take() (io.Closer, error) {
	return claim.Take("clamp", "clamps the windows of this host's sockets")
}
