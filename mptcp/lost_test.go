// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"net/netip"
	"testing"

	"bicast/internal/lab"
	"bicast/mptcp"
)

// Case: the kernel dropped events, those of this subflow among them.
func TestAwaitFindsASubflowWhoseEventsAreLost(t *testing.T) {
	b := &bench{t: t}
	b.client, b.server = lab.Two(t)
	b.handle = open(t, b.client)
	b.client.Sysctl("mptcp/pm_type", "1")
	b.conn = b.client.Dial(b.server.Echo(lab.Service+":0"), fromWifi)
	b.exchange(b.conn)
	c, lte := b.connection(), netip.MustParseAddr(fromLTE)
	must(t, b.handle.Create(c, 1, lte, c.Remote()))
	events := make(chan mptcp.Event, 2)
	events <- mptcp.Event{}
	events <- mptcp.Event{}
	established, err := b.handle.Await(b.soon(), events, c, lte, c.Remote())
	if err != nil || established.Local.Addr() != lte || established.Local.Port() == 0 {
		t.Fatalf("%+v, %v: expected the subflow from %v", established, err, lte)
	}
}

// Case: another process closes a path after a switch has read the connections.
func TestSwitchLeavesNoEndpointOfAPathClosedMeanwhile(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	c := b.connection()
	_, err := b.handle.RemoveSubflow(c, from(c, fromLTE)[0])
	must(t, err)
	_, err = b.handle.PreferAll([]mptcp.SubflowPreference{{Connection: c, Wanted: from(c, fromWifi), Others: from(c, fromLTE)}}, false)
	must(t, err)
	endpoints, err := b.handle.Endpoints()
	must(t, err)
	for _, each := range endpoints {
		if each.Address == netip.MustParseAddr(fromLTE) {
			t.Fatalf("%+v is left of a path that is closed", each)
		}
	}
}
