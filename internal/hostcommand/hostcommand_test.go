// SPDX-License-Identifier: Apache-2.0

package hostcommand

import (
	"strings"
	"testing"
)

func TestRunUsesItsOwnProcessGroup(t *testing.T) {
	said, err := Run("coreutils", "", "cat", "/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	stat := strings.Fields(string(said)) // proc_pid_stat(5): pid, comm, state, ppid, pgrp
	if stat[4] != stat[0] {
		t.Fatalf("process %s is in the group %s, expected one of its own", stat[0], stat[4])
	}
}
