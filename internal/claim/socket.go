// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pending = 128 // connections to a socket that nobody accepts; SO_PEERCRED only needs the connection
	pause   = 10 * time.Millisecond
	closing = time.Second // a child being started may keep a closed socket for so long
)

// socket is an abstract Unix socket, whose name the kernel keeps once per network namespace. It excludes agents with
// another /run, such as those in containers with host networking. Any local user can bind the name too, so a holder
// counts only if it is root or this user. Against others the file decides alone: they can bar no agent.
type socket struct{ fd int }

// bind binds the name in the network namespace of the calling thread. It returns nil and no error if another user has
// the name.
func bind(name, does string) (io.Closer, error) {
	address := &unix.SockaddrUnix{Name: "@bicast-agent claim " + name}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot claim %s: %w", name, err)
	}
	for late := time.Now().Add(closing); ; time.Sleep(pause) {
		err = unix.Bind(fd, address)
		if err == nil {
			if err = unix.Listen(fd, pending); err == nil {
				return &socket{fd}, nil
			}
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
		owner, unknown := peer(address)
		if unknown == nil && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid()) {
			return nil, errors.Join(unix.Close(fd), fmt.Errorf("another agent%s %s: %w", where(owner.Pid), does, ErrTaken))
		}
		if unknown == nil || time.Now().After(late) {
			return nil, unix.Close(fd)
		}
	}
	return nil, errors.Join(fmt.Errorf("cannot claim %s: %w", name, err), unix.Close(fd))
}

// peer returns who listens at an address.
func peer(address unix.Sockaddr) (*unix.Ucred, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, address); err != nil {
		return nil, err
	}
	return unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
}

// where names a process, unless it is in a PID namespace that this one does not see.
func where(pid int32) string {
	if pid == 0 {
		return " (in another container)"
	}
	return fmt.Sprintf(" (process %d of this host)", pid)
}

// Close frees the name. A child being started may have a copy of the socket; after the shutdown no connection to that
// succeeds, so that bind waits for the child.
func (s *socket) Close() error {
	return errors.Join(unix.Shutdown(s.fd, unix.SHUT_RDWR), unix.Close(s.fd))
}

// both is a claim that has a file and a socket; the socket is nil if another user has its name.
type both struct{ file, socket io.Closer }

func (b *both) Close() error {
	var err error
	if b.socket != nil {
		err = b.socket.Close()
	}
	return errors.Join(err, b.file.Close())
}
