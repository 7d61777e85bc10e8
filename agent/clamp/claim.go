package clamp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// place is this network namespace's, in no file system; it is free again when the process is gone, however it went.
var place = &net.UnixAddr{Name: "@bicast/clamp", Net: "unix"}

// claim keeps other agents from the sockets of this network namespace.
func claim() (io.Closer, error) {
	listener, err := net.ListenUnix("unix", place)
	if err == nil {
		return listener, nil
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("the windows of this host's sockets cannot be claimed: %w", err)
	}
	owner, err := whoHasIt()
	switch {
	case err != nil:
		return nil, fmt.Errorf("somebody has claimed the windows of this host's sockets, and who it is cannot be found out: %w", err)
	case owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return io.NopCloser(nil), nil // who may attach no programs has only taken the name
	default:
		return nil, fmt.Errorf("another agent holds the windows of this host's sockets, process %d (clamp): end that", owner.Pid)
	}
}

func whoHasIt() (owner *unix.Ucred, err error) {
	conn, err := net.DialUnix("unix", nil, place)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	asked := raw.Control(func(fd uintptr) { owner, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return owner, errors.Join(asked, err)
}
