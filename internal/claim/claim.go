// Package claim keeps what two agents of one network namespace cannot both do for one of them.
package claim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const freeWithin = time.Second

// ErrTaken is that another agent has a name, and lives.
var ErrTaken = errors.New("end that one, or leave it to that")

// Take has a name for this process while it lives: the name is in no file system, and goes with the process. `does` is
// what whoever has it does, for whom it is refused.
func Take(name, does string) (io.Closer, error) {
	place := &net.UnixAddr{Name: "@bicast/" + name, Net: "unix"}
	listener, err := net.ListenUnix("unix", place)
	switch {
	case err == nil:
		go letGo(listener)
		return taken{listener, place}, nil
	case !errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%s cannot be claimed: %w", name, err)
	}
	owner, err := ownerOf(place)
	if err != nil {
		return nil, fmt.Errorf("somebody has claimed %s, and who it is cannot be found out: %w", name, err)
	}
	if owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return io.NopCloser(nil), nil // anybody may take a name; only an agent can do it
	}
	return nil, fmt.Errorf("another agent (process %d of this host) %s: %w", owner.Pid, does, ErrTaken)
}

type taken struct {
	listener net.Listener
	place    *net.UnixAddr
}

// Close returns when the name is free: a child that is just being started has a copy of it until it is another program.
func (t taken) Close() error {
	if err := t.listener.Close(); err != nil {
		return err
	}
	for end := time.Now().Add(freeWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		conn, err := net.DialUnix("unix", nil, t.place)
		if err != nil {
			return nil
		}
		conn.Close()
	}
	return nil // somebody else has it by now
}

// letGo of those who asked, or there would be no room for the next.
func letGo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed: the name is free
		}
		conn.Close()
	}
}

func ownerOf(place *net.UnixAddr) (owner *unix.Ucred, err error) {
	conn, err := net.DialUnix("unix", nil, place)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { owner, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return owner, errors.Join(err, failure)
}
