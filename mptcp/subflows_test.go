// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"net/netip"
	"slices"
	"testing"

	"bicast/internal/lab"
	"bicast/mptcp"
)

func TestSubflowsMatchesConnections(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	for _, handle := range []*mptcp.Handle{b.handle, b.far} {
		whole, err := handle.Connections()
		must(t, err)
		alone, err := handle.Subflows()
		must(t, err)
		if len(alone) != 1 || alone[0].Token != whole[0].Token || alone[0].Serves != whole[0].Serves {
			t.Fatalf("%v, expected %v", alone, whole)
		}
		if !slices.EqualFunc(alone[0].Subflows, whole[0].Subflows, func(a, b mptcp.Subflow) bool {
			return a.Cookie == b.Cookie && a.Local == b.Local && a.Remote == b.Remote
		}) {
			t.Fatalf("%v, expected %v", alone[0].Subflows, whole[0].Subflows)
		}
	}
}

// Connections queries each token of a few, and dumps all of many.
func TestConnectionsListsAllOfFewAndOfMany(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	services := map[string]netip.AddrPort{
		"10.1.0.1": b.server.Echo(lab.Service + ":0"), "fd01::1": b.server.Echo("[" + lab.Service6 + "]:0"),
	}
	inodes := []uint64{lab.Inode(b.conn)}
	for range 50 {
		for local, service := range services {
			conn := b.client.Dial(service, local)
			must(t, lab.Exchange(conn, 1000))
			inodes = append(inodes, lab.Inode(conn))
		}
		connections, err := b.handle.Connections()
		must(t, err)
		for _, inode := range inodes {
			at := slices.IndexFunc(connections, func(c mptcp.Connection) bool { return c.Inode == inode })
			if at < 0 || connections[at].Token == 0 || connections[at].Cookie == 0 || connections[at].BytesSent == 0 {
				t.Fatalf("of %d connections one is not among the %d of %v", len(inodes), len(connections), connections)
			}
		}
	}
}
