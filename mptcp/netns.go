// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Where `ip netns` keeps the namespaces that have a name.
const namedNamespaces = "/run/netns"

// Each work inside another namespace has a thread, and Go ends a process that has 10,000. Connecting waits for strangers, such as
// servers that are silent: beyond so many the next one waits for its turn.
const mostDials = 1024

// A network namespace that stays open while we hold its file.
type namespace struct {
	file *os.File
	own  bool // this process is inside already: entering it would ask for a right that is not needed

	dials chan struct{} // those that wait, each with a thread
}

// An empty name is the namespace of this process; a name with a slash is a path like /proc/PID/ns/net.
func openNamespace(name string) (*namespace, error) {
	path := name
	switch {
	case name == "":
		path = "/proc/thread-self/ns/net"
	case !strings.Contains(name, "/"):
		path = filepath.Join(namedNamespaces, name)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, refusal("the network namespace "+path+" cannot be opened", err)
	}
	if err != nil {
		return nil, noNamespace("there is no network namespace "+path, err)
	}
	kind, err := unix.IoctlRetInt(int(file.Fd()), unix.NS_GET_NSTYPE)
	if err == nil && kind == unix.CLONE_NEWNET {
		return &namespace{file, name == "", make(chan struct{}, mostDials)}, nil
	}
	file.Close()
	if other := otherNamespaces[kind]; err == nil && other != "" {
		return nil, noNamespace(fmt.Sprintf("%s is a %s namespace, no network namespace", path, other), nil)
	}
	return nil, noNamespace(path+" is no network namespace", err)
}

// What else a file of /proc/PID/ns may be (ioctl_ns(2)).
var otherNamespaces = map[int]string{
	unix.CLONE_NEWNS: "mount", unix.CLONE_NEWPID: "process", unix.CLONE_NEWUSER: "user", unix.CLONE_NEWUTS: "UTS",
	unix.CLONE_NEWIPC: "IPC", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_NEWTIME: "time",
}

func noNamespace(what string, said error) error {
	return &Error{
		Kind: NoNamespace, What: what, Said: said,
		Advice: "give a name that `ip netns` lists, or a path like /proc/PID/ns/net",
	}
}

// config makes a netlink socket be in the namespace.
func (n *namespace) config() *netlink.Config {
	if n.own {
		return &netlink.Config{}
	}
	return &netlink.Config{NetNS: int(n.file.Fd())}
}

// id is the namespace's cookie. The number of its file will not do: the next namespace may get that again.
func (n *namespace) id() (cookie uint64, err error) {
	err = n.do(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("the network namespace cannot be told from others: %w; that wants Linux 5.14 or newer", err)
	}
	return cookie, nil
}

// BootID names this run of the kernel: what was noted of a namespace in an earlier one means nothing.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// do calls work on a thread that is inside the namespace, for what /proc and the kernel answer by the asker's own.
func (n *namespace) do(work func() error) error {
	if n.own {
		return work()
	}
	outcome := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and nobody else ever runs in the namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			outcome <- refusal("the network namespace "+n.file.Name()+" cannot be entered", err)
			return
		}
		outcome <- work()
	}()
	return <-outcome
}

// dial is for work that waits for others. Work that nobody waits for any more is not begun.
func (n *namespace) dial(ctx context.Context, work func() error) error {
	if n.own {
		return work()
	}
	select {
	case n.dials <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-n.dials }()
	return n.do(work)
}
