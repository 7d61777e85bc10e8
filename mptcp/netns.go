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

// The directory of namespaces named by `ip netns`.
const namedNamespaces = "/run/netns"

// Each call inside another namespace occupies a thread, and Go ends a process with 10,000 of them. Connecting waits for
// peers that may be silent, so dials beyond this number wait.
const maxDials = 1024

// namespace is a network namespace, kept open by its file.
type namespace struct {
	file *os.File
	own  bool // this process is inside already: entering would need a privilege for nothing

	dials chan struct{} // one slot per waiting dial
}

// openNamespace opens this process's namespace for "", a path if the name has a slash, else a name of `ip netns`.
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
		return &namespace{file, name == "", make(chan struct{}, maxDials)}, nil
	}
	file.Close()
	if other := otherNamespaces[kind]; err == nil && other != "" {
		return nil, noNamespace(fmt.Sprintf("%s is a %s namespace, no network namespace", path, other), nil)
	}
	return nil, noNamespace(path+" is no network namespace", err)
}

// Other kinds of files in /proc/PID/ns (ioctl_ns(2)).
var otherNamespaces = map[int]string{
	unix.CLONE_NEWNS: "mount", unix.CLONE_NEWPID: "process", unix.CLONE_NEWUSER: "user", unix.CLONE_NEWUTS: "UTS",
	unix.CLONE_NEWIPC: "IPC", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_NEWTIME: "time",
}

func noNamespace(what string, said error) error {
	return &Error{
		Kind: NoNamespace, What: what, Cause: said,
		Advice: "give a name that `ip netns` lists, or a path like /proc/PID/ns/net",
	}
}

// config places a netlink socket in the namespace.
func (n *namespace) config() *netlink.Config {
	if n.own {
		return &netlink.Config{}
	}
	return &netlink.Config{NetNS: int(n.file.Fd())}
}

// id returns the namespace's cookie. The inode number would not do: the kernel reuses it.
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
		return 0, fmt.Errorf("cannot read the cookie of the network namespace: %w; this needs Linux 5.14 or newer", err)
	}
	return cookie, nil
}

// BootID identifies this run of the kernel: namespace cookies of earlier runs mean nothing.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// do calls work on a thread inside the namespace.
func (n *namespace) do(work func() error) error {
	if n.own {
		return work()
	}
	outcome := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, so no other code runs in the namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			outcome <- refusal("the network namespace "+n.file.Name()+" cannot be entered", err)
			return
		}
		outcome <- work()
	}()
	return <-outcome
}

// dial runs work that waits for a peer. It does not start after the context has ended.
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
