// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Plain is TCP, with a terminal or a server. It is reset when this process is killed: a connection that simply ended would
// tell its peer that this was all.
type Plain struct{ *net.TCPConn }

// OfTCP takes a connection over.
func OfTCP(conn *net.TCPConn) *Plain {
	conn.SetLinger(0)
	return &Plain{conn}
}

// Close is for both ways having ended.
func (p *Plain) Close() error { return finish(p.TCPConn) }

// Reset cuts it off.
func (p *Plain) Reset() { p.TCPConn.Close() }

// There reads what came already, if anything: it waits for nothing, and that this was all is told by the next Read.
func (p *Plain) There(b []byte) (int, error) {
	n, err := there(p.TCPConn, b)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
		return 0, nil
	}
	return n, err
}

// Flush has nothing to do: what is written is sent.
func (p *Plain) Flush() error { return nil }

// Lost tells whether it was reset.
func (p *Plain) Lost() bool { return lost(p.TCPConn) }

// Unsent tells whether the peer has not acknowledged everything yet.
func (p *Plain) Unsent() bool {
	raw, err := p.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return waiting > 0
}

// finish lets the kernel send what waits.
func finish(conn *net.TCPConn) error {
	conn.SetLinger(-1)
	return conn.Close()
}

// lost is by an error that waits in the socket: that both ways have ended is none.
func lost(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	found := false
	raw.Control(func(fd uintptr) {
		asked := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(asked, 0); err == nil && n == 1 {
			found = asked[0].Revents&unix.POLLERR != 0
		}
	})
	return found
}

// Ahead is an end of which some bytes were read already.
type Ahead struct {
	End
	First []byte
}

// Read gives those first.
func (a *Ahead) Read(b []byte) (int, error) {
	if len(a.First) == 0 {
		return a.End.Read(b)
	}
	n := copy(b, a.First)
	a.First = a.First[n:]
	if len(a.First) == 0 {
		a.First = nil
	}
	return n, nil
}

// readable is for SyscallConn.Read: it takes nothing.
func readable(fd uintptr) bool {
	_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return !errors.Is(err, unix.EAGAIN)
}

// there is Read; it has no more time when nothing is there.
func there(conn *net.TCPConn, b []byte) (n int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	wrong := raw.Read(func(fd uintptr) bool {
		n, _, err = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
		return true
	})
	switch {
	case wrong != nil || err != nil && !errors.Is(err, unix.EAGAIN):
		return 0, errors.Join(wrong, err)
	case err != nil:
		return 0, os.ErrDeadlineExceeded
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
