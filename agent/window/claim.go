package window

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// claim keeps other agents from a port of this network namespace, while this process lives: two of them would each hold
// another order. Its name is in no file system, and goes with the process.
func claim(port string) (io.Closer, error) {
	name := &net.UnixAddr{Name: "@bicast/window/" + port, Net: "unix"}
	listener, err := net.ListenUnix("unix", name)
	if err == nil {
		go letGo(listener)
		return listener, nil
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s cannot be claimed: %w", port, err)
	}
	owner, err := ownerOf(name)
	if err != nil {
		return nil, fmt.Errorf("somebody has claimed %s, and who it is cannot be found out: %w", port, err)
	}
	if owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return io.NopCloser(nil), nil // anybody may take a name; only an agent can have programs at the port
	}
	return nil, fmt.Errorf("another agent (process %d) lowers windows at %s: end that one, or leave the port to it", owner.Pid, port)
}

// letGo of those who asked, or there would be no room for the next.
func letGo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed: the port is free
		}
		conn.Close()
	}
}

func ownerOf(name *net.UnixAddr) (owner *unix.Ucred, err error) {
	conn, err := net.DialUnix("unix", nil, name)
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
