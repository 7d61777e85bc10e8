// SPDX-License-Identifier: Apache-2.0

// Package pathmanager puts a relay's namespace under the userspace path manager, which can move single connections, and restores
// the kernel's path manager however the agent ends.
//
// Connections under the userspace path manager accept a second subflow only while a process listens to the kernel's events. A
// separate process, the guard, does that. Its input closes when the agent ends, even by SIGKILL. Then the guard restores the
// kernel's path manager and listens until the last affected connection has closed. If both processes were killed, the next agent
// or `release` (Release) does that: a marker file tells them (mark.go).
package pathmanager

import (
	"fmt"
	"os"
	"strings"

	"bicast/mptcp"
)

// sysctl selects the path manager of new connections: Documentation/networking/mptcp-sysctl.
const sysctl = "/proc/sys/net/mptcp/pm_type"

const (
	kernel    = "0"
	userspace = "1"
)

// Current returns the path manager of new connections in a handle's namespace.
func Current(handle *mptcp.Handle) (mptcp.PathManager, error) {
	var text []byte
	err := handle.Do(func() (err error) {
		text, err = os.ReadFile(sysctl)
		return err
	})
	if err != nil {
		return mptcp.UnknownManager, fmt.Errorf("cannot read which path manager is in use: %w; this needs Linux 5.19 or newer", err)
	}
	if strings.TrimSpace(string(text)) == userspace {
		return mptcp.UserspaceManager, nil
	}
	return mptcp.KernelManager, nil
}

func set(handle *mptcp.Handle, manager string) error {
	err := handle.Do(func() error { return os.WriteFile(sysctl, []byte(manager), 0) })
	if err != nil {
		return fmt.Errorf("cannot set the path manager: %w; this needs root and Linux 5.19 or newer", err)
	}
	return nil
}
