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

// leftovers returns the programs of killed agents. The caller has the claim, so no living agent has programs for this
// namespace.
func leftovers(root *os.File, netns uint64) (*cgroupbpf.Found, error) {
	return leftoversAt(root, netns, clock.Monotonic())
}

func leftoversAt(root *os.File, netns uint64, now time.Duration) (*cgroupbpf.Found, error) {
	found, err := cgroupbpf.Find(root, programName)
	if err == nil {
		found.Left(netns, now, ownerOf)
	}
	return found, err
}

func ownerOf(program *cgroupbpf.Program) (cgroupbpf.Whose, error) {
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

// Release removes the programs that killed agents left in the calling thread's network namespace and releases their
// sockets. It also removes programs of any namespace that had no heartbeat for long. With blind, it lacks the right
// to see all programs.
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
	mine, refused := takeClaim()
	if refused == nil {
		defer mine.Close()
	}
	left, err := leftovers(root, netns)
	if err != nil {
		return 0, false, err
	}
	defer left.Close()
	if refused != nil { // an agent is running, and the youngest program belongs to it
		its := left.Youngest(netns, ownerOf)
		left.Keep(func(each *cgroupbpf.Program) bool { return each != its })
	}
	gone, err = takeAway(left, nil)
	return gone, left.Blind, err
}

// takeAway removes the programs of killed agents. Then it releases their sockets, except those that the next program
// inherits: before that, the programs would capture them again.
func takeAway(left *cgroupbpf.Found, inherited *cgroupbpf.Program) (gone int, err error) {
	gone, err = left.TakeAway()
	for _, each := range left.Programs {
		if each != inherited {
			err = errors.Join(err, releaseSockets(each.Maps[holdings]))
		}
	}
	return gone, err
}

// releaseSockets releases the remembered sockets of this namespace.
func releaseSockets(remembered *ebpf.Map) error {
	p, err := load(remembered)
	if err != nil {
		return err
	}
	p.releasing, err = link.AttachIter(link.IterOptions{Program: p.objects.LetGo})
	return errors.Join(err, p.Close())
}

func takeClaim() (io.Closer, error) {
	return claim.Take("clamp", "clamps the windows of this host's sockets")
}
