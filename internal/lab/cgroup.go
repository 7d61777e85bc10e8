// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"
	"time"

	"bicast/internal/cgroupbpf"
)

// Cgroup returns a new cgroup. It is removed after the test, once its last process has ended.
func Cgroup(t testing.TB) string {
	t.Helper()
	cgroup, err := os.MkdirTemp(cgroupbpf.Mounted(), "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for until := time.Now().Add(time.Minute); os.Remove(cgroup) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Errorf("the cgroup %s still has processes", cgroup)
				return
			}
		}
	})
	return cgroup
}
