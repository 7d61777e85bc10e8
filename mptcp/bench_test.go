// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/lab"
	"bicast/mptcp"
)

const (
	fromWifi = "10.1.0.1"
	fromLTE  = "10.2.0.1"
	// Enough for a busy machine; a passing test never waits that long.
	patience = time.Minute
	megabyte = 1_000_000
)

// bench is a client with a connection that has an active subflow on each path.
type bench struct {
	t              *testing.T
	client, server *lab.Host
	handle, far    *mptcp.Handle // of the client, of the server
	conn           net.Conn
}

func newBench(t *testing.T, clientManager mptcp.PathManager) *bench {
	t.Helper()
	return newBenchBetween(t, clientManager, mptcp.KernelManager)
}

func newBenchBetween(t *testing.T, clientManager, serverManager mptcp.PathManager) *bench {
	t.Helper()
	b := &bench{t: t}
	b.client, b.server = lab.Two(t)
	b.handle, b.far = open(t, b.client), open(t, b.server)
	if clientManager == mptcp.UserspaceManager {
		b.client.Sysctl("mptcp/pm_type", "1")
	}
	if serverManager == mptcp.UserspaceManager {
		b.server.Sysctl("mptcp/pm_type", "1")
		_, err := b.far.Events(b.soon()) // with nobody listening, it refuses joins
		must(t, err)
	}
	b.conn = b.client.Dial(b.server.Echo(lab.Service+":0"), fromWifi)
	b.exchange(b.conn)
	b.add(fromLTE)
	return b
}

func open(t *testing.T, host *lab.Host) *mptcp.Handle {
	t.Helper()
	handle, err := mptcp.Open(host.Path())
	must(t, err)
	t.Cleanup(func() { must(t, handle.Close()) })
	return handle
}

func (b *bench) add(local string) {
	b.t.Helper()
	c := b.connection()
	_, err := b.handle.AddSubflow(b.soon(), c, netip.MustParseAddr(local), c.Remote())
	must(b.t, err)
}

func (b *bench) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// connection returns the connection of this test.
func (b *bench) connection() mptcp.Connection {
	b.t.Helper()
	connections, err := b.handle.Connections()
	must(b.t, err)
	inode := lab.Inode(b.conn)
	for _, c := range connections {
		if c.Inode == inode {
			return c
		}
	}
	b.t.Fatalf("the connection is not among %v", connections)
	return mptcp.Connection{}
}

func first(t *testing.T, handle *mptcp.Handle) mptcp.Connection {
	t.Helper()
	connections, err := handle.Connections()
	must(t, err)
	if len(connections) == 0 || connections[0].Token == 0 {
		t.Fatalf("no MPTCP connection among %v", connections)
	}
	return connections[0]
}

func (b *bench) exchange(conn net.Conn) {
	b.t.Helper()
	must(b.t, conn.SetDeadline(time.Now().Add(patience)))
	must(b.t, lab.Exchange(conn, megabyte))
}

// moved returns the bytes that an exchange sent on the subflow of each path.
func (b *bench) moved() (wifi, lte uint64) {
	b.t.Helper()
	before := b.connection()
	b.exchange(b.conn)
	after := b.connection()
	carried := func(local string) uint64 { return sent(after, local) - sent(before, local) }
	return carried(fromWifi), carried(fromLTE)
}

func sent(c mptcp.Connection, local string) uint64 {
	for _, s := range from(c, local) {
		return s.BytesAcked
	}
	return 0
}

func from(c mptcp.Connection, local string) []mptcp.Subflow {
	var found []mptcp.Subflow
	for _, s := range c.Subflows {
		if s.Local.Addr().String() == local {
			found = append(found, s)
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind mptcp.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v; want an error of kind %v", err, kind)
	}
}
