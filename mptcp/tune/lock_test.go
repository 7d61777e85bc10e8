// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"testing"
	"time"

	"bicast/internal/lab"
	"bicast/mptcp"
)

func TestLockIgnoresUnprivilegedHolders(t *testing.T) {
	host := lab.One(t)
	host.Squat(nil, nil)
	handle, err := mptcp.Open(host.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	locked := make(chan error, 1)
	go func() {
		alone, err := lock(handle)
		if err == nil {
			err = alone.Close()
		}
		locked <- err
	}()
	select {
	case err := <-locked:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the lock waits for a process without the right to it")
	}
}
