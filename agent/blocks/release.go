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

// Release removes the programs that killed agents left at cgroups in the calling thread's network namespace and
// restores their sockets. It also removes programs of any namespace that had no heartbeat for long. With blind, it
// lacks the right to see all programs.
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
		if errors.Is(err, fs.ErrNotExist) { // the cgroup has gone meanwhile
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
		switch mine, err := claimCgroup(directory); {
		case err == nil:
			defer mine.Close()
		case errors.Is(err, claim.ErrTaken): // an agent is running, and the youngest program belongs to it
			its := left.Programs[count-1]
			left.Keep(func(each *cgroupbpf.Program) bool { return each != its })
		default:
			return 0, left.Blind, err
		}
	}
	left.Left(netns, clock.Monotonic(), ownerOf)
	for _, each := range left.Programs {
		if err := restore(each); err != nil {
			return 0, left.Blind, err
		}
	}
	gone, err = left.TakeAway()
	return gone, left.Blind, err
}

func ownerOf(program *cgroupbpf.Program) (cgroupbpf.Whose, error) {
	var report settings
	if err := program.Read(orderMap, &report); err != nil {
		return cgroupbpf.Whose{}, err
	}
	spec, err := specification()
	if err != nil {
		return cgroupbpf.Whose{}, err
	}
	return cgroupbpf.Whose{
		Netns: report.NetnsCookie, TendedUntil: time.Duration(report.LeaseUntilNS), Strange: !program.Has(heldMap, spec.Maps[heldMap]),
	}, nil
}

// restore restores the sockets that a program holds in this namespace.
func restore(left *cgroupbpf.Program) error {
	p := &program{within: func(work func() error) error { return work() }}
	if err := left.Read(orderMap, &p.settings); err != nil {
		return err
	}
	return errors.Join(p.takeOver(left.Maps), p.unload())
}

// claimCgroup claims a cgroup on the whole host.
func claimCgroup(cgroup *os.File) (io.Closer, error) {
	var status unix.Stat_t
	if err := unix.Fstat(int(cgroup.Fd()), &status); err != nil {
		return nil, err
	}
	return claim.TakeOnHost(fmt.Sprintf("blocks/%d", status.Ino), "limits the blocks of "+cgroup.Name())
}
