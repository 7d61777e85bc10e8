// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/mtls"
)

func TestEachTerminalUsesAllUplinksFromItsOwnAddresses(t *testing.T) {
	h := ordered(t, true, "tokyo")
	h.sees(television4, server4, relay4)
	h.sees(tablet4, server4, relay4)
	h.sees(television6, server6, relay6) // the relay has IPv4 only
	h.eventually("both subflows of each", func() bool {
		seen := h.subflows()
		return slices.Contains(seen, "10.97.1.2 10.97.2.2") && slices.Contains(seen, "10.97.2.3 10.97.1.3")
	})
	h.taking() // of before
	taking := h.taking()
	if n := taking.GetTerminals()[0]; n.GetRelayed() != 2 || n.GetConnections() != 2 || n.GetBytesDown() == 0 || n.GetDirect() != 0 {
		t.Fatalf("%v, expected two of the television", taking)
	}
	if n := len(taking.GetPending()); n != 2 { // one for each IP version
		t.Fatalf("the report is %v, expected both prefixes to be pending", taking)
	}
}

func TestARelayIsReachedByIPv6(t *testing.T) {
	h := newHouse(t)
	h.stands("tokyo", 4433)
	order := h.order("tokyo")
	order.Relays[0].Address = "fd09::9"
	h.takes(order)
	h.connected()
	h.reached("tokyo", true)
	h.sees(television4, server4, relay4)
	h.eventually("both subflows", func() bool { // on a busy machine either one may be the first
		seen := h.subflows()
		return slices.Contains(seen, "fd97:1::2 fd97:2::2") || slices.Contains(seen, "fd97:2::2 fd97:1::2")
	})
}

func TestAnEndedSubflowIsReplaced(t *testing.T) {
	h := ordered(t, true, "tokyo")
	session := h.sees(television4, server4, relay4)
	both := func() bool {
		return !slices.Contains(h.subflows(), "10.97.1.2") && !slices.Contains(h.subflows(), "10.97.2.2")
	}
	h.eventually("both subflows", both)
	h.relay.Run("ss", "--kill", "--tcp", "state", "established", "dst", "10.97.1.2") // like a reset from a middlebox
	h.eventually("it is gone by Wi-Fi, where it began", func() bool { return !both() })
	if err := session.goesOn(); err != nil {
		t.Fatalf("the connection ended with its subflow: %v", err)
	}
	h.eventually("both subflows again", both)
}

func TestAConnectionGetsASubflowViaAnotherRelay(t *testing.T) {
	h := ordered(t, true, "tokyo")
	h.relay.Run("ip", "mptcp", "limits", "set", "subflows", "8")
	h.relay.Run("nft", "add table ip onward; add chain ip onward in { type nat hook prerouting priority dstnat; };"+
		"add rule ip onward in tcp dport 5533 redirect to :4433") // like the rules of another relay
	order := h.order("tokyo", "osaka")
	order.Block = true
	order.Relays[1].Onward = []*agentv1.PortForward{{Port: 5533, Address: "10.9.9.9", OtherPort: 4433}}
	h.takes(order)
	h.sees(television4, server4, relay4)
	ridden := func(wifi, lte int) func() bool {
		return func() bool {
			return slices.ContainsFunc(h.subflows(), func(from string) bool {
				return strings.Count(from, "10.97.1.2") == wifi && strings.Count(from, "10.97.2.2") == lte
			})
		}
	}
	h.eventually("two subflows by the best uplink, and one by the other", ridden(2, 1))
	slices.Reverse(order.Terminals[0].Locals)
	h.takes(order)
	h.eventually("the other relay's way is by what is the best uplink then", ridden(1, 2))
	order.Relays[1].Onward = nil
	h.takes(order)
	h.eventually("the subflow via the other relay has ended", ridden(1, 1))
}

func TestADestinationUsesItsChosenRelays(t *testing.T) {
	h := ordered(t, true, "tokyo", "osaka")
	of := func(relay string) uint32 {
		h.taking()
		for _, each := range h.taking().GetRelays() {
			if each.GetName() == relay {
				return each.GetConnections()
			}
		}
		return 0
	}
	choice := &agentv1.RelayChoice{Prefix: "45.0.0.0/24", Relays: []string{"osaka", "kyoto", "tokyo"}}
	h.chooses(&agentv1.RelayChoice{Prefix: "45.0.0.0/8"}, choice)
	first := h.sees(television4, server4, relay4)
	if n := of("osaka"); n != 1 {
		t.Fatalf("%d connections go by the first choice, expected one", n)
	}
	order := h.order("tokyo", "osaka")
	order.Block = true
	h.drains("osaka", order)
	h.sees(television4, server4, relay4)
	if err := first.goesOn(); of("tokyo") != 1 || err != nil {
		t.Fatalf("a relay is drained: %v, and %d connections go by the other, expected one", err, of("tokyo"))
	}
	h.drains("", order)
	choice.Together = true
	h.chooses(choice)
	for range 4 {
		h.sees(tablet4, server4, relay4)
	}
	if a, b := of("osaka"), of("tokyo"); a != 3 || b != 3 {
		t.Fatalf("%d and %d connections, expected the tablet's four on both alike", a, b)
	}
	h.falls("osaka")
	h.sees(television4, server4, relay4)
	if err := first.goesOn(); err == nil {
		t.Fatal("a connection outlived its relay")
	}
	h.chooses(&agentv1.RelayChoice{Prefix: "45.0.0.0/24"})
	h.sees(television4, server4, "10.97.1.2") // directly, by the best uplink
}

func TestTimedAnotherRelayIsUsedWithin2s(t *testing.T) {
	h := ordered(t, true, "tokyo", "osaka")
	h.chooses(&agentv1.RelayChoice{Prefix: "45.0.0.0/24", Relays: []string{"osaka", "tokyo"}, Together: true})
	for range 4 {
		h.sees(tablet4, server4, relay4)
	}
	h.falls("osaka")
	began := time.Now()
	h.sees(television4, server4, relay4)
	if took := time.Since(began); took > 2*time.Second {
		t.Fatalf("another relay is found after %v, expected 1 s at most and what this machine adds", took)
	}
}

func TestAnEndedRelayClosesItsConnections(t *testing.T) {
	h := ordered(t, true, "tokyo", "osaka")
	prefix := &agentv1.RelayChoice{Prefix: "45.0.0.0/24", Relays: []string{"osaka"}}
	h.chooses(prefix)
	by := map[string]*session{"osaka": h.sees(television4, server4, relay4)}
	prefix.Relays[0] = "tokyo"
	h.chooses(prefix)
	by["tokyo"] = h.sees(television4, server4, relay4)
	order := h.order("tokyo")
	order.Block = true
	h.takes(order)
	if err := by["osaka"].goesOn(); err == nil {
		t.Error("a connection outlived the order by which its relay was one")
	}
	if err := by["tokyo"].goesOn(); err != nil {
		t.Errorf("the other relay stopped: %v", err)
	}
}

func TestTerminalsChangeWithoutDisturbingOthers(t *testing.T) {
	h := ordered(t, true, "tokyo")
	television, tablet := h.sees(television4, server4, relay4), h.sees(tablet4, server4, relay4)
	order := h.order("tokyo")
	order.Block = true
	order.Terminals = order.Terminals[:1]
	slices.Reverse(order.Terminals[0].Locals) // another uplink is the best one
	h.takes(order)
	if err := television.goesOn(); err != nil {
		t.Fatalf("one terminal is no longer intercepted; another's connection: %v", err)
	}
	if err := tablet.goesOn(); err == nil {
		t.Fatal("a connection outlived the order that intercepted it")
	}
	h.sees(television4, server4, relay4)
	h.eventually("it begins by what is best now", func() bool { return slices.Contains(h.subflows(), "10.97.2.2 10.97.1.2") })
	h.takes(h.order("tokyo"))
	h.sees(tablet4, server4, relay4)
	if err := television.goesOn(); err != nil {
		t.Fatalf("after another terminal was intercepted, this terminal's connection fails: %v", err)
	}
}

func TestAnInvalidOrderChangesNothingAndIsExplained(t *testing.T) {
	h := ordered(t, true, "tokyo")
	session := h.sees(television4, server4, relay4)
	for said, bend := range map[string]func(*agentv1.Intercept){
		`port "rl-much-too-long"`:                             func(o *agentv1.Intercept) { o.Port = "rl-much-too-long" },
		`uplink "lte": port "rl-wifi" is empty or used twice`: func(o *agentv1.Intercept) { o.Uplinks[1].Port = "rl-wifi" },
		`uplink "lte": gateway "10.97.2.1"`:                   func(o *agentv1.Intercept) { o.Uplinks[1].Gateways[0] = "10.97.2.1" },
		`address "10.97.1.2" is empty or used twice`:          func(o *agentv1.Intercept) { o.Terminals[1].Locals[0].Addresses[0] = "10.97.1.2" },
		`terminal "tablet": local 10.97.2.1, `:                func(o *agentv1.Intercept) { o.Terminals[1].Locals[0].Addresses[0] = "10.97.2.1" },
		`terminal "tablet": local of uplink "dsl"`:            func(o *agentv1.Intercept) { o.Terminals[1].Locals[0].Uplink = "dsl" },
		`address "192.168.7.2" is empty or used twice`:        func(o *agentv1.Intercept) { o.Terminals[1].Addresses[0] = television4 },
		`relay "tokyo": address 10.9.9.9: port 0`:             func(o *agentv1.Intercept) { o.Relays[0].Port = 0 },
		`relay "tokyo": key_sha256: 0 bytes`:                  func(o *agentv1.Intercept) { o.Relays[0].KeySha256 = nil },
		`except: "here"`:                                      func(o *agentv1.Intercept) { o.Excepted = []string{"here"} },
	} {
		order := h.order("tokyo")
		bend(order)
		result := h.says(&agentv1.Directive{Order: &agentv1.Directive_Intercept{Intercept: order}})
		if result.GetDone() || !strings.Contains(result.GetAnswer(), said) {
			t.Errorf("%v, expected a refusal that says %q", result, said)
		}
	}
	result := h.says(&agentv1.Directive{Order: &agentv1.Directive_Choices{
		Choices: &agentv1.Choices{Choices: []*agentv1.RelayChoice{{Prefix: "45.0.0.2/24"}}},
	}})
	if result.GetDone() || !strings.Contains(result.GetAnswer(), `prefix "45.0.0.2/24"`) {
		t.Errorf("%v, expected a refusal", result)
	}
	if err := session.goesOn(); err != nil {
		t.Fatal(err)
	}
}

func TestGatewayRefusesARelayWithAnotherKey(t *testing.T) {
	h := newHouse(t)
	h.stands("tokyo", 4433)
	order := h.order("tokyo")
	order.Relays[0].KeySha256 = mtls.KeySum(h.brain.Authority.Identity("tokyo", "controller:1").Certificate)
	h.takes(order)
	h.connected()
	h.eventually("it is told why", func() bool {
		reached := h.taking().GetRelays()
		return len(reached) == 1 && strings.Contains(reached[0].GetReason(), "for a key that is no longer valid")
	})
	h.takes(h.order("tokyo"))
	h.reached("tokyo", true)
}

func TestAPortWithAnotherProgramIsReportedAndRetried(t *testing.T) {
	h := newHouse(t)
	h.stands("tokyo", 4433)
	h.gateway.Run("ip", "link", "add", "rl-home", "type", "veth", "peer", "name", "elsewhere")
	if result := h.says(&agentv1.Directive{Order: &agentv1.Directive_Intercept{Intercept: h.order("tokyo")}}); result.GetDone() ||
		!strings.Contains(result.GetAnswer(), "expected no device rl-home") {
		t.Fatalf("%v, expected a refusal", result)
	}
	h.gateway.Run("ip", "link", "delete", "rl-home")
	h.eventually("it is taken", func() bool { return h.taking().GetReason() == "" })
	h.connected()
	h.reached("tokyo", true)
	h.sees(television4, server4, relay4)
}

func TestATerminalCannotForgeARequestToTheRelay(t *testing.T) {
	h := ordered(t, false, "tokyo")
	h.serves("8000", func(conn *net.TCPConn) {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprint(conn, line)
	})
	const smuggled = "CONNECT 127.0.0.1:22 HTTP/1.1\r\n"
	one, err := h.opens(television4, server4, "8000")
	if err != nil || one.seen != relay4 {
		t.Fatal(one, err)
	}
	fmt.Fprint(one, smuggled)
	if line, err := one.lines.ReadString('\n'); line != smuggled {
		t.Fatalf("the server got %q (%v), expected what the terminal sent, as it is", line, err)
	}
	if _, err := h.opens(television4, server4, "8099"); !errors.Is(err, unix.ECONNRESET) { // where nobody listens
		t.Fatalf("a connection that the server refuses reads %v, expected a reset", err)
	}
}

func TestLocalAddressesOfTerminalsAcceptNoConnections(t *testing.T) {
	h := ordered(t, false, "tokyo")
	h.link(h.gateway, "lan", "10.50.0.1/24", h.bridge, "10.50.0.2/24")
	var listener net.Listener
	h.gateway.Do(func() (err error) {
		listener, err = net.Listen("tcp", ":22")
		return err
	})
	defer listener.Close()
	for to, heard := range map[string]bool{"10.50.0.1": true, "10.97.1.2": false} {
		dialer := net.Dialer{Timeout: map[bool]time.Duration{true: within, false: 300 * time.Millisecond}[heard]}
		err := h.bridge.Try(func() error {
			conn, err := dialer.Dial("tcp", to+":22")
			if err == nil {
				conn.Close()
			}
			return err
		})
		if (err == nil) != heard {
			t.Fatalf("a connection of another host to %s gets %v, expected success: %v", to, err, heard)
		}
	}
	if _, err := h.opens(television4, "10.50.0.1", "22"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatalf("a terminal that connects to this host's own address gets %v, expected a refusal", err)
	}
}

func TestRulesThatAFirewallRemovedAreRestored(t *testing.T) {
	h := ordered(t, false, "tokyo")
	h.sees(television4, server4, relay4)
	h.gateway.Run("nft", "flush", "ruleset")
	h.eventually("connections are taken again", func() bool {
		one, err := h.opens(television4, server4, "80")
		return err == nil && one.seen == relay4
	})
}

func TestOnlyTCPIsIntercepted(t *testing.T) {
	h := ordered(t, true, "tokyo")
	var server net.PacketConn
	h.server.Do(func() (err error) {
		server, err = net.ListenPacket("udp", server4+":53")
		return err
	})
	defer server.Close()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			server.WriteTo([]byte(from.(*net.UDPAddr).IP.String()+"\n"), from)
		}
	}()
	var conn net.Conn
	h.terminals.Do(func() (err error) {
		conn, err = net.Dial("udp", server4+":53")
		return err
	})
	defer conn.Close()
	conn.Write([]byte("?"))
	if seen, err := bufio.NewReader(conn).ReadString('\n'); strings.TrimSpace(seen) != television4 {
		t.Fatalf("the server sees %q (%v), expected the terminal", seen, err)
	}
	h.terminals.Run("ping", "-c", "1", "-W", "5", server4)
}

func TestTheHostAnswersTerminalsAfterTheAgentIsKilled(t *testing.T) {
	for _, block := range []bool{false, true} {
		t.Run(map[bool]string{false: "direct", true: "block"}[block], func(t *testing.T) {
			h := ordered(t, block, "tokyo")
			session := h.sees(television4, server4, relay4)
			h.end(os.Kill)
			if err := session.goesOn(); err == nil {
				t.Fatal("a connection outlived the proxy")
			}
			for from, to := range map[string]string{television4: server4, tablet6: server6} {
				if block {
					h.refused(from, to)
				} else {
					h.sees(from, to, from)
				}
			}
			h.start()
			order := h.order("tokyo")
			order.Block = block
			h.takes(order)
			h.reached("tokyo", true)
			h.sees(tablet4, server4, relay4)
		})
	}
}

func TestTakeRestoresTheHostAtItsEnd(t *testing.T) {
	h := newHouse(t)
	h.gateway.Sysctl("mptcp/blackhole_timeout", "60")
	h.gateway.Run("ip", "link", "add", "ve-home-h", "address", hostMAC, "type", "veth", "peer", "ve-home") // of `bicast bridge`
	state := func() string {
		return h.gateway.Run("ip", "rule") + h.gateway.Run("ip", "-6", "rule") + h.gateway.Run("ip", "route", "show", "table", "all") +
			h.gateway.Run("ip", "-6", "route", "show", "table", "all") + h.gateway.Run("nft", "list", "ruleset") +
			h.gateway.Run("ip", "-o", "link", "show", "type", "veth") + h.gateway.Run("sysctl", "net.mptcp")
	}
	before := state()
	h.stands("tokyo", 4433)
	for what, undo := range map[string]func(){
		"ends": func() { h.end(unix.SIGTERM) },
		"is killed, and another given back what it left": func() {
			h.end(os.Kill)
			h.gateway.Sysctl("mptcp/blackhole_timeout", "60") // stays 0 afterwards
			h.eventually("the guard has restored the path manager", func() bool {
				return strings.Contains(h.gateway.Run("sysctl", "net.mptcp.pm_type"), "= 0")
			})
			if said, err := h.program("release", "--directory", h.directory).CombinedOutput(); !strings.Contains(string(said), "interception is removed") {
				t.Fatalf("%v: %s", err, said)
			}
		},
		"is ordered to take nothing": func() {
			order := h.order()
			order.Terminals = nil
			h.takes(order)
		},
	} {
		h.takes(h.order("tokyo"))
		h.reached("tokyo", false)
		undo()
		if after := state(); after != before {
			t.Fatalf("when the agent %s there is\n%s\nexpected, as before,\n%s", what, after, before)
		}
		if h.agent.ProcessState != nil {
			h.start()
		}
	}
}
