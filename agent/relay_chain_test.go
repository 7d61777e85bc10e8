// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"bicast/internal/lab"
)

// The connections of both relays pass a second gateway, the cabin's, which relays them to osaka:
//
//	terminal ─ home's gateway and osaka ─ tokyo ─ cabin's gateway ─ 45.0.1.2 server
//
// Osaka listens at an address from which it never connects, so the cabin does not know its connections by their
// address. Only the mark of the cabin's request tells osaka that a connection is its own.
func TestSecondRelayRefusesItsOwnConnection(t *testing.T) {
	const server, osaka, listens = "45.0.1.2", "10.0.1.1", "192.168.7.1:4433" // osaka as servers and gateways see it
	const most = 4                                                            // a loop would open thousands
	r := newRoad(t)
	cabin, far := r.server, lab.One(t)
	r.link(cabin, far, "45.0.1", "2a10")
	cabin.Sysctl("ipv4/ip_forward", "1")
	r.relay.Run("ip", "route", "add", "45.0.1.0/24", "via", server4)
	far.Run("ip", "route", "add", "default", "via", "45.0.1.1")
	nameCallers(far, net.JoinHostPort(server, "80"))
	r.gateway.Run("nft", fmt.Sprintf("add table inet loop; add chain inet loop out { type filter hook output priority 0; }; "+
		"add rule inet loop out tcp dport 80 ct state new ct count over %d counter reject with tcp reset", most))

	r.relays()
	r.start(r.gateway, append([]string{"relay", "--listen", listens, "--gateway", "cabin"}, showing(r.authority.Relay("osaka"))...)...)
	r.takes("block", r.home())
	r.start(cabin, append([]string{
		"take", "--relay", listens, "--name", "osaka", "--port", "5000", "--fallback", "direct", "--inside", "left",
		"--from", "45.0.0.0/24", "--from", "10.0.1.0/24",
	}, showing(r.authority.Gateway("cabin", time.Hour))...)...)
	r.eventually("the server sees osaka", func() bool {
		who, _ := r.seen(server, "80")
		if !strings.Contains(r.gateway.Run("nft", "list", "chain", "inet", "loop", "out"), "packets 0 ") {
			t.Fatalf("osaka opened more than %d connections, expected one: it carries its own", most)
		}
		return who == osaka
	})
}

// nameCallers writes to each caller its address in a line, and closes.
func nameCallers(at *lab.Host, address string) {
	at.Serve(address, false, func(conn *net.TCPConn) { fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).IP) })
}
