// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Plain is a TCP connection to a terminal or a server. It is reset if this process is killed: an orderly end would make
// the data look complete.
type Plain struct{ *net.TCPConn }

// OfTCP wraps a connection.
func OfTCP(conn *net.TCPConn) *Plain {
	conn.SetLinger(0)
	return &Plain{conn}
}

// Close closes the connection after both directions have ended.
func (p *Plain) Close() error { return closeGracefully(p.TCPConn) }

// Reset resets the connection.
func (p *Plain) Reset() { p.TCPConn.Close() }

// ReadAvailable reads data that has arrived, without waiting. An end of data is left to the next Read.
func (p *Plain) ReadAvailable(b []byte) (int, error) {
	n, err := available(p.TCPConn, b)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
		return 0, nil
	}
	return n, err
}

// Flush does nothing: Write sends at once.
func (p *Plain) Flush() error { return nil }

// IsReset tells whether the peer has reset the connection.
func (p *Plain) IsReset() bool { return wasReset(p.TCPConn) }

// HasUnsent tells whether the peer has not acknowledged everything yet.
func (p *Plain) HasUnsent() bool {
	raw, err := p.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return waiting > 0
}

// closeGracefully closes the connection and lets the kernel send the rest.
func closeGracefully(conn *net.TCPConn) error {
	conn.SetLinger(-1)
	return conn.Close()
}

// wasReset tells whether the socket has a pending error. An end in both directions is none.
func wasReset(conn *net.TCPConn) bool {
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

// Ahead is a connection whose first data was read already.
type Ahead struct {
	End
	First []byte
}

// Read returns the data that was read already first.
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

// readable is for SyscallConn.Read; it consumes nothing.
func readable(fd uintptr) bool {
	_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return !errors.Is(err, unix.EAGAIN)
}

// available reads without waiting; with no data it returns os.ErrDeadlineExceeded.
func available(conn *net.TCPConn, b []byte) (n int, err error) {
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
