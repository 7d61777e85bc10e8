// SPDX-License-Identifier: Apache-2.0

// Package claim grants exclusive use of something, such as the interception of connections in a network namespace, to
// one agent.
//
// A claim is a lock (flock) on a file that only root can open, and an abstract Unix socket of the network namespace. The
// kernel releases both whenever the process ends. The socket excludes agents that have another /run. The file excludes
// the others even if another local user binds the socket's name.
package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const again = 200 * time.Millisecond // between attempts for a socket; the kernel announces no release

// ErrTaken means that a live agent has the claim.
var ErrTaken = errors.New("stop that agent, or let it do this")

// Take claims a name in the network namespace of the calling thread, until the claim is closed or the process ends.
// `does` says in the error what the holder does.
func Take(name, does string) (io.Closer, error) {
	path, err := here(name)
	if err != nil {
		return nil, err
	}
	file, err := tryLock(path, does)
	if err != nil {
		return nil, err
	}
	socket, err := bind(name, does)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &both{file, socket}, nil
}

// TakeOnHost claims a name for the whole host, such as that of a cgroup.
func TakeOnHost(name, does string) (io.Closer, error) {
	path, err := file("host", name)
	if err != nil {
		return nil, err
	}
	return tryLock(path, does)
}

// Await is Take in the network namespace where `within` runs its work. It waits while another process has the claim.
func Await(ctx context.Context, within func(func() error) error, name string) (io.Closer, error) {
	var path string
	if err := within(func() (err error) {
		path, err = here(name)
		return err
	}); err != nil {
		return nil, err
	}
	type outcome struct {
		claim *claim
		err   error
	}
	locked := make(chan outcome)
	go func() {
		one, err := lock(path, unix.LOCK_EX)
		select {
		case locked <- outcome{one, err}:
		case <-ctx.Done():
			if err == nil {
				one.Close()
			}
		}
	}()
	select {
	case one := <-locked:
		if one.err != nil {
			return nil, one.err
		}
		return awaitSocket(ctx, within, name, one.claim)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func awaitSocket(ctx context.Context, within func(func() error) error, name string, file io.Closer) (io.Closer, error) {
	for {
		var socket io.Closer
		err := within(func() (err error) {
			socket, err = bind(name, "has "+name)
			return err
		})
		if err == nil {
			return &both{file, socket}, nil
		}
		if !errors.Is(err, ErrTaken) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		}
	}
}

// File returns the path of a state file for the holder of a claim in the calling thread's network namespace.
func File(name string) (string, error) { return here("kept " + name) }

// Cookie returns the cookie of the calling thread's network namespace, unique until reboot. Inode numbers are reused.
func Cookie() (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return "", fmt.Errorf("cannot read the cookie of the network namespace: %w; this needs Linux 5.14 or newer", err)
	}
	return fmt.Sprint(cookie), nil
}

func tryLock(path, does string) (io.Closer, error) {
	one, err := lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another agent%s %s: %w", holder(path), does, ErrTaken)
	}
	if err != nil {
		return nil, err
	}
	return one, nil
}

// holder returns the process that wrote its PID into the claim.
func holder(path string) string {
	if number, err := os.ReadFile(path); err == nil && len(number) > 0 {
		return " (process " + strings.TrimSpace(string(number)) + " of this host)"
	}
	return ""
}

// here returns the file of a name in the calling thread's network namespace.
func here(name string) (string, error) {
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &namespace); err != nil {
		return "", fmt.Errorf("cannot claim %s, since this network namespace cannot be identified: %w", name, err)
	}
	return file(fmt.Sprint(namespace.Ino), name)
}

func file(of, name string) (string, error) {
	directory, err := createDirectory(claimsDirectory())
	if err != nil {
		return "", fmt.Errorf("cannot claim %s: %w", name, err)
	}
	return filepath.Join(directory, of+"."+url.PathEscape(name)), nil
}

// claimsDirectory returns the directory of claims. Android has no /run.
func claimsDirectory() string {
	for _, root := range []string{"/run", "/dev"} {
		if there, err := os.Stat(root); err == nil && there.IsDir() {
			return root + "/bicast-agent/claims"
		}
	}
	return "/run/bicast-agent/claims"
}

// createDirectory creates the directory of claims, and refuses one that others can write to.
func createDirectory(directory string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(directory), 0o755); err != nil {
		return "", fmt.Errorf("%w; this needs root, or systemd's RuntimeDirectory=bicast-agent", err)
	}
	if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w; this needs root, or systemd's RuntimeDirectory=bicast-agent", err)
	}
	var there unix.Stat_t
	if err := unix.Lstat(directory, &there); err != nil {
		return "", err
	}
	if there.Mode&unix.S_IFMT != unix.S_IFDIR || int(there.Uid) != os.Geteuid() || there.Mode&0o077 != 0 {
		return "", fmt.Errorf("%s belongs to user %d with mode %o, expected a directory of user %d with mode 700: remove it",
			directory, there.Uid, there.Mode, os.Geteuid())
	}
	return directory, nil
}

// claim is a locked file.
type claim struct {
	path string
	file *os.File
}

// lock locks the current file of a path: Close removes the file, so it retries if the path has changed meanwhile.
func lock(path string, how int) (*claim, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		one := &claim{path, file}
		if err := one.lock(how); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if one.isCurrent() {
			return one, one.writePID()
		}
		file.Close()
	}
}

func (c *claim) lock(how int) error {
	for {
		if err := unix.Flock(int(c.file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (c *claim) isCurrent() bool {
	mine, err := c.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(c.path)
	return err == nil && os.SameFile(mine, there)
}

// writePID writes the PID into the claim.
func (c *claim) writePID() error {
	err := c.file.Truncate(0)
	if err == nil {
		_, err = c.file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// Close releases the claim at once. Closing the file would not suffice: a child being started has a copy of the
// descriptor.
func (c *claim) Close() error {
	return errors.Join(os.Remove(c.path), unix.Flock(int(c.file.Fd()), unix.LOCK_UN), c.file.Close())
}
