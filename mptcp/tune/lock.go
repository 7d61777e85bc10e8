package tune

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"bicast/mptcp"
)

// lock has a namespace to ourselves until the file is closed: of two that set it up at once, each would take the other's
// values for what was there before. It is the namespace's own file that is locked, whichever state file they keep.
func lock(h *mptcp.Handle) (file *os.File, err error) {
	err = h.Do(func() error {
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("the network namespace cannot be had alone: %w; no other `setup` may run in it meanwhile", err)
	}
	return file, nil
}
