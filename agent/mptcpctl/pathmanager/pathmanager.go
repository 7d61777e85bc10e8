// SPDX-License-Identifier: Apache-2.0

// Package pathmanager gives a relay's connections to the userspace path manager, under which each can be moved by
// itself, and gives them back however the agent ends.
//
// Connections under it accept no second subflow unless somebody listens to the kernel's events, for as long as they
// live. So this is done by a process of its own, the guard: its input ends when the agent does, even by SIGKILL. Then
// it hands the namespace back to the kernel's path manager and listens until the last connection of that time is gone.
// Where both were killed, the next agent does that, or `release` (Release): a file tells them (mark.go).
package pathmanager

import (
	"fmt"
	"os"
	"strings"

	"bicast/mptcp"
)

// The sysctl that says under which path manager connections are made from now on: Documentation/networking/mptcp-sysctl.
const sysctl = "/proc/sys/net/mptcp/pm_type"

const (
	kernel    = "0"
	userspace = "1"
)

// Current tells under which path manager connections of a handle's namespace are made.
func Current(handle *mptcp.Handle) (mptcp.PathManager, error) {
	var text []byte
	err := handle.Do(func() (err error) {
		text, err = os.ReadFile(sysctl)
		return err
	})
	if err != nil {
		return mptcp.UnknownManager, fmt.Errorf("the path manager cannot be told: %w; that wants Linux 5.19 or newer", err)
	}
	if strings.TrimSpace(string(text)) == userspace {
		return mptcp.UserspaceManager, nil
	}
	return mptcp.KernelManager, nil
}

func set(handle *mptcp.Handle, manager string) error {
	err := handle.Do(func() error { return os.WriteFile(sysctl, []byte(manager), 0) })
	if err != nil {
		return fmt.Errorf("the path manager could not be set: %w; that wants root and Linux 5.19 or newer", err)
	}
	return nil
}
