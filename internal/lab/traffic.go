// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Echo runs an MPTCP echo server on an address of the host and returns where it listens.
func (h *Host) Echo(address string) netip.AddrPort {
	h.t.Helper()
	return h.Serve(address, true, echo)
}

// TCPEcho runs an echo server for plain TCP on an address of the host and returns where it listens.
func (h *Host) TCPEcho(address string) netip.AddrPort {
	h.t.Helper()
	return h.Serve(address, false, echo)
}

func echo(conn *net.TCPConn) { io.Copy(conn, conn) }

// Serve listens on an address of the host and runs serve on each connection, and then closes it. It returns where it
// listens.
func (h *Host) Serve(address string, mptcp bool, serve func(*net.TCPConn)) netip.AddrPort {
	h.t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(mptcp)
	var listener net.Listener
	h.Do(func() (err error) {
		listener, err = config.Listen(context.Background(), "tcp", address)
		return err
	})
	h.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed: the test is over
			}
			h.t.Cleanup(func() { conn.Close() })
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}

// Dial connects with MPTCP, from a local address if one is given.
func (h *Host) Dial(to netip.AddrPort, from string) net.Conn {
	h.t.Helper()
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	if from != "" {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	}
	var conn net.Conn
	h.Do(func() (err error) {
		conn, err = dialer.Dial("tcp", to.String())
		return err
	})
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// Exchange sends bytes to an echo server and waits for their return.
func Exchange(conn net.Conn, bytes int) error {
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, bytes))
		sent <- err
	}()
	_, err := io.CopyN(io.Discard, conn, int64(bytes))
	return errors.Join(err, <-sent)
}

// Inode returns the inode of a connection's socket, which identifies it in /proc and sock_diag.
func Inode(conn net.Conn) uint64 {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		panic(err) // only for a connection without a socket
	}
	var status unix.Stat_t
	if err := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &status) }); err != nil {
		panic(err)
	}
	return status.Ino
}
