// SPDX-License-Identifier: Apache-2.0

package pathmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"bicast/internal/claim"
	"bicast/mptcp"
)

// Release gives a namespace back whose agent and guard were killed together, and tells whether it had to. Where nothing
// was left behind, or a guard lives, it does nothing. Connections of that time that live on get a listener: `command`,
// which is Listen in a process of its own.
func Release(netns, directory string, command []string) (released bool, err error) {
	if none, err := unmarked(directory); err != nil || none {
		return false, err
	}
	handle, err := mptcp.Open(netns)
	if err != nil {
		return false, err
	}
	defer handle.Close()
	noted, err := markOf(handle, directory)
	if err != nil {
		return false, err
	}
	if standing, err := noted.stands(); err != nil || !standing {
		return false, err
	}
	mine, err := vacated(handle)
	if err != nil {
		return false, fmt.Errorf("it cannot be told whether an agent holds the path manager: %w", err)
	}
	if mine == nil {
		return false, nil
	}
	defer mine.Close()
	if standing, err := noted.stands(); err != nil || !standing { // its guard has just given it back
		return false, err
	}
	if err := giveBack(handle, noted); err != nil {
		return false, err
	}
	if !needed(handle) {
		return true, nil
	}
	remaining := exec.Command(command[0], command[1:]...)
	remaining.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives who calls it
	if err := remaining.Start(); err != nil {
		return true, fmt.Errorf("connections that were made under the userspace path manager accept no second path: %w", err)
	}
	go remaining.Wait() // where we live on, nothing of it stays when it has ended
	return true, nil
}

// Listen listens to the kernel's events until the last connection under the userspace path manager has ended: with
// nobody listening those accept no second subflow.
func Listen(netns string) error {
	ignoreEnds()
	handle, events, cancel, err := eventsOf(netns)
	if err != nil {
		return err
	}
	defer handle.Close()
	defer cancel()
	listen(handle, events)
	return nil
}

// A guard that was killed leaves the seat a moment later.
const leavesWithin = time.Second

// vacated takes the seat; nil where a guard lives.
func vacated(handle *mptcp.Handle) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leavesWithin)
	defer cancel()
	mine, err := claim.Await(ctx, handle.Do, seat)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return mine, err
}

func takeSeat(handle *mptcp.Handle) (mine io.Closer, err error) {
	err = handle.Do(func() error {
		mine, err = claim.Take(seat, "holds the path manager of this network namespace")
		return err
	})
	return mine, err
}
