// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bicast/mptcp"
)

// serves starts a server that writes its peer's address in a line and then runs then on the connection.
func (h *house) serves(port string, then func(conn *net.TCPConn)) {
	h.t.Helper()
	for _, address := range []string{server4, server6} {
		h.server.Serve(net.JoinHostPort(address, port), false, func(conn *net.TCPConn) {
			fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
			then(conn)
		})
	}
}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

// session is a terminal's connection to a server.
type session struct {
	*net.TCPConn
	lines *bufio.Reader
	seen  string // by the server
}

func (h *house) opens(from, to, port string) (*session, error) {
	dialer := net.Dialer{Timeout: within, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	dialer.SetMultipathTCP(false)
	var conn net.Conn
	if err := h.terminals.Try(func() (err error) {
		conn, err = dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(to, port))
		return err
	}); err != nil {
		return nil, err
	}
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(within))
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	return &session{conn.(*net.TCPConn), lines, strings.TrimSpace(line)}, err
}

// sees opens a session and requires that the server sees this peer.
func (h *house) sees(from, to, seen string) *session {
	h.t.Helper()
	one, err := h.opens(from, to, "80")
	if err != nil || one.seen != seen {
		h.t.Fatalf("the server at %s sees %+v (%v) of %s, expected %s", to, one, err, from, seen)
	}
	return one
}

// goesOn requires that the session still echoes bytes.
func (s *session) goesOn() error {
	if _, err := fmt.Fprintln(s, "go on"); err != nil {
		return err
	}
	_, err := s.lines.ReadString('\n')
	return err
}

func (h *house) refused(from, to string) {
	h.t.Helper()
	if one, err := h.opens(from, to, "80"); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ECONNRESET) {
		h.t.Fatalf("%s gets %+v (%v) at %s, expected a reset", from, one, err, to)
	}
}

// subflows returns the source addresses of each terminal's connection at the relay.
func (h *house) subflows() (all []string) {
	h.t.Helper()
	handle, err := mptcp.Open(h.relay.Path())
	if err != nil {
		h.t.Fatal(err)
	}
	defer handle.Close()
	connections, err := handle.Connections()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range connections {
		if c.Token == 0 {
			continue
		}
		var from []string
		for _, s := range c.Subflows {
			from = append(from, s.Remote.Addr().String())
		}
		all = append(all, strings.Join(from, " "))
	}
	return all
}

func (h *house) eventually(what string, so func() bool) {
	h.t.Helper()
	for late := time.Now().Add(within); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			h.t.Fatalf("%s: not within %v; subflows by %q", what, within, h.subflows())
		}
	}
}
