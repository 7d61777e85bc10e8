package pathmanager

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

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
	listener, err := vacated(handle)
	if err != nil {
		return false, fmt.Errorf("it cannot be told whether an agent holds the path manager: %w", err)
	}
	if listener == nil {
		return false, nil
	}
	defer listener.Close()
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
func vacated(handle *mptcp.Handle) (net.Listener, error) {
	late := time.Now().Add(leavesWithin)
	for {
		listener, err := takeSeat(handle)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		var guard net.Conn
		err = handle.Do(func() (err error) {
			guard, err = net.Dial("unix", seat)
			return err
		})
		if errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(late) {
			continue // it left between the two
		}
		if err != nil {
			return nil, err
		}
		guard.SetReadDeadline(late)
		_, err = guard.Read(make([]byte, 1)) // it never writes
		guard.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil
		}
	}
}

func takeSeat(handle *mptcp.Handle) (listener net.Listener, err error) {
	err = handle.Do(func() (err error) {
		listener, err = net.Listen("unix", seat)
		return err
	})
	return listener, err
}
