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

// Release restores the path manager of a namespace whose agent and guard were killed together, and reports whether it
// did. Without a mark, or with a living guard, it does nothing. For remaining connections it starts a listener with
// `command`, a process that calls Listen.
func Release(netns, directory string, command []string) (released bool, err error) {
	if none, err := hasNoMarks(directory); err != nil || none {
		return false, err
	}
	handle, err := mptcp.Open(netns)
	if err != nil {
		return false, err
	}
	defer handle.Close()
	marker, err := markOf(handle, directory)
	if err != nil {
		return false, err
	}
	if standing, err := marker.isSet(); err != nil || !standing {
		return false, err
	}
	mine, err := takeOrphanedSeat(handle)
	if err != nil {
		return false, fmt.Errorf("cannot find out whether an agent holds the path manager: %w", err)
	}
	if mine == nil {
		return false, nil
	}
	defer mine.Close()
	if standing, err := marker.isSet(); err != nil || !standing { // its guard has just restored it
		return false, err
	}
	if err := restore(handle, marker); err != nil {
		return false, err
	}
	if !needed(handle) {
		return true, nil
	}
	remaining := exec.Command(command[0], command[1:]...)
	remaining.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it must outlive the caller
	if err := remaining.Start(); err != nil {
		return true, fmt.Errorf("cannot start a listener, so connections under the userspace path manager accept no second subflow: %w", err)
	}
	go remaining.Wait() // reap the process if this one lives longer
	return true, nil
}

// Listen listens to the kernel's events until the last connection under the userspace path manager has closed.
// Without a listener those connections accept no second subflow.
func Listen(netns string) error {
	ignoreSignals()
	handle, events, cancel, err := eventsOf(netns)
	if err != nil {
		return err
	}
	defer handle.Close()
	defer cancel()
	listen(handle, events)
	return nil
}

// guardExitTimeout is how long the seat of a killed guard may stay taken.
const guardExitTimeout = time.Second

// takeOrphanedSeat takes the seat. It returns nil if a guard is alive.
func takeOrphanedSeat(handle *mptcp.Handle) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), guardExitTimeout)
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
