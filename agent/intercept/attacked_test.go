// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A restart of systemd-networkd removes rules and routes.
func TestRemovedRulesAndRoutesAreRestored(t *testing.T) {
	for _, words := range []string{
		"ip rule del priority 11", "ip rule flush protocol 202", "ip -6 rule flush protocol 202",
		"ip route flush table 45514", "ip link set dev rl-wifi-h down",
	} {
		t.Run(words, func(t *testing.T) {
			h := ordered(t, true, "tokyo")
			state := func() []string {
				return strings.Split(h.gateway.Run("ip", "rule")+h.gateway.Run("ip", "-6", "rule")+
					h.gateway.Run("ip", "route", "show", "table", "all")+h.gateway.Run("ip", "-6", "route", "show", "table", "all"), "\n")
			}
			before := state()
			h.gateway.Run(strings.Fields(words)...)
			h.eventually("all is there again", func() bool {
				after := state()
				return !slices.ContainsFunc(before, func(one string) bool { return !slices.Contains(after, one) })
			})
			h.sees(television4, server4, relay4)
		})
	}
}

func TestANewlyInterceptedTerminalIsNotReset(t *testing.T) {
	h := ordered(t, false, "tokyo")
	both, one := h.order("tokyo"), h.order("tokyo")
	one.Terminals = one.Terminals[:1]
	for range 5 {
		h.takes(one)
		opened := make(chan error)
		go func() {
			for {
				one, err := h.opens(tablet4, server4, "80")
				if err == nil {
					one.Close()
				}
				if err != nil || one.seen == relay4 {
					opened <- err
					return
				}
			}
		}()
		h.takes(both)
		if err := <-opened; err != nil {
			t.Fatalf("a terminal's connection during the order that intercepts it: %v", err)
		}
	}
}

func TestAFailedSubflowIsRetried(t *testing.T) {
	h := newHouse(t)
	h.stands("tokyo", 4433)
	h.gateway.Run("ip", "rule", "add", "from", "10.97.2.0/24", "priority", "5", "unreachable") // as a bridge without its port
	h.takes(h.order("tokyo"))
	h.connected()
	h.reached("tokyo", true)
	session := h.sees(television4, server4, relay4)
	h.gateway.Run("ip", "rule", "del", "priority", "5")
	h.eventually("both subflows of all connections", func() bool { return !slices.Contains(h.subflows(), "10.97.1.2") })
	if err := session.goesOn(); err != nil {
		t.Fatal(err)
	}
}

func TestAFirewallThatDropsConnectionsIsReported(t *testing.T) {
	h := ordered(t, true, "tokyo")
	h.gateway.Run("nft", "add table inet wall; add chain inet wall input { type filter hook input priority 0; }; "+
		`add rule inet wall input iifname "rl-home-h" drop`)
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range 3 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			h.terminals.Try(func() error {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(television4)}}
				conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(server4, "80"))
				if err == nil {
					conn.Close()
				}
				return err
			})
		}()
	}
	defer callers.Wait()
	defer cancel()
	h.eventually("it is told", func() bool { return strings.Contains(h.taking().GetReason(), "from rl-home-h") })
	h.gateway.Run("nft", "delete table inet wall")
	h.sees(television4, server4, relay4)
	h.eventually("it is told no more", func() bool { return h.taking().GetReason() == "" })
}
