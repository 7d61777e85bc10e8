// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/internal/cgroupbpf"
	"bicast/internal/claim"
	"bicast/internal/clock"
)

// Release takes away what killed agents of the network namespace that it is called in left at cgroups, and gives sockets
// back what they had; and from anywhere what nobody has tended for long. Blind: it may not look at all that there is.
func Release() (gone int, blind bool, err error) {
	root := cgroupbpf.Mounted()
	if root == "" {
		return 0, false, nil
	}
	netns, err := caps.Cookie()
	if err != nil {
		return 0, false, err
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			var here int
			var unseen bool
			here, unseen, err = releaseAt(path, netns)
			gone, blind = gone+here, blind || unseen
		}
		if errors.Is(err, fs.ErrNotExist) { // cgroups come and go
			return nil
		}
		return err
	})
	return gone, blind, err
}

func releaseAt(cgroup string, netns uint64) (gone int, blind bool, err error) {
	directory, err := os.Open(cgroup)
	if err != nil {
		return 0, false, err
	}
	defer directory.Close()
	left, err := cgroupbpf.Find(directory, atCgroup)
	if err != nil {
		return 0, false, err
	}
	defer left.Close()
	if count := len(left.Programs); count > 0 {
		switch mine, err := alone(directory); {
		case err == nil:
			defer mine.Close()
		case errors.Is(err, claim.ErrTaken): // an agent lives, and the youngest is its own
			its := left.Programs[count-1]
			left.Keep(func(each *cgroupbpf.Program) bool { return each != its })
		default:
			return 0, left.Blind, err
		}
	}
	left.Left(netns, clock.Monotonic(), whose)
	for _, each := range left.Programs {
		if err := giveBack(each); err != nil {
			return 0, left.Blind, err
		}
	}
	gone, err = left.TakeAway()
	return gone, left.Blind, err
}

func whose(program *cgroupbpf.Program) (cgroupbpf.Whose, error) {
	var told settings
	if err := program.Read(orderMap, &told); err != nil {
		return cgroupbpf.Whose{}, err
	}
	spec, err := specification()
	if err != nil {
		return cgroupbpf.Whose{}, err
	}
	return cgroupbpf.Whose{
		Netns: told.NetnsCookie, TendedUntil: time.Duration(told.LeaseUntilNS), Strange: !program.Has(heldMap, spec.Maps[heldMap]),
	}, nil
}

// giveBack ends what a program holds of the sockets of this namespace.
func giveBack(left *cgroupbpf.Program) error {
	p := &program{within: func(work func() error) error { return work() }}
	if err := left.Read(orderMap, &p.settings); err != nil {
		return err
	}
	return errors.Join(p.takeOver(left.Maps), p.let())
}

// alone claims a cgroup, which is one on the whole host.
func alone(cgroup *os.File) (io.Closer, error) {
	var status unix.Stat_t
	if err := unix.Fstat(int(cgroup.Fd()), &status); err != nil {
		return nil, err
	}
	return claim.TakeOnHost(fmt.Sprintf("blocks/%d", status.Ino), "keeps the blocks of "+cgroup.Name())
}
