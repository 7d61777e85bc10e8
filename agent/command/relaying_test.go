// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/internal/mtls"
)

const beyond = "45.0.0.2:80" // the only server. The phone's host is the gateway here

// stands orders the agent to relay for the gateway home.
func (b *bench) stands(home trust.Identity) {
	b.t.Helper()
	is, err := trust.Load(b.directory)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := mtls.KeySum(home.Certificate)
	b.visit.Order(&agentv1.Directive{Id: 3, Order: &agentv1.Directive_Relay{Relay: &agentv1.Relay{
		Port: 4433, Certificate: b.brain.Authority.Relay("relay", &is.Key.PublicKey, nil).Raw, Congestion: "reno",
		Gateways: []*agentv1.RelayClient{{Name: "home", KeySha256: sum}}, Allowed: []*agentv1.PortRange{{First: 80, Last: 80}},
		Onward: []*agentv1.PortForward{{Port: 5001, Address: "45.0.0.9", OtherPort: 443}},
	}}})
	if result := b.visit.Result(); !result.GetDone() {
		b.t.Fatalf("%v, expected a relay", result)
	}
}

// carried replaces the bench's connection by one through the relay.
func (b *bench) carried(home trust.Identity) {
	b.t.Helper()
	wire := b.phone.Dial(netip.MustParseAddrPort(lab.Service+":4433"), "10.1.0.1")
	shows := tls.Certificate{Certificate: [][]byte{home.Certificate.Raw}, PrivateKey: home.Key}
	conn := tls.Client(wire, mtls.Calling(shows, home.Authority(), "relay", nil))
	conn.SetDeadline(time.Now().Add(controllertest.Patience))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", beyond, beyond)
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil || answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%v, %v: expected to be carried", answer, err)
	}
	b.conn = conn
	b.exchange()
}

func TestARelaysAgentMovesItsRelayedConnections(t *testing.T) {
	b := &bench{t: t, brain: controllertest.New(t)}
	b.phone, b.relay = lab.Two(t)
	t.Cleanup(func() {
		eventually(t, "the guard is gone with its agent", func() bool { return guards(t, b.relay.Path()) == 0 })
	})
	b.phone.Run("ip", "address", "add", "45.0.0.2/32", "dev", "lo")
	b.relay.Run("ip", "route", "add", "45.0.0.2", "via", "10.1.0.1")
	b.phone.TCPEcho(beyond)
	b.near, b.far = open(t, b.phone), open(t, b.relay)
	b.directory = b.brain.Directory("relay")
	home := b.brain.Authority.Identity("home", b.brain.Sessions)

	b.start("relay")
	b.stands(home)
	b.carried(home)
	b.joinLTE()
	b.visit.Order(&agentv1.Directive{Id: 5, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{
		Path: path("10.2.0.1"), Others: []*agentv1.Path{path("10.1.0.1")},
	}}})
	if result := b.visit.Result(); !result.GetDone() || result.GetConnections() != 1 || b.active() != "10.2.0.1" {
		t.Fatalf("%v, and it sends to %s, expected LTE alone", result, b.active())
	}
	b.exchange()
	b.visit.Order(&agentv1.Directive{Id: 6, Order: &agentv1.Directive_ReportEvery{ReportEvery: &agentv1.ReportEvery{IntervalMs: 100}}})
	b.visit.Result()
	report := b.visit.Report()
	if all, is := report.GetConnections(), report.GetRelay(); len(all) != 1 || all[0].GetToken() == 0 || is.GetConnections() != 1 {
		t.Fatalf("%v, expected the gateway's connection, and not the server's", report)
	}

	b.process.Process.Kill()
	b.process.Wait()
	if _, err := b.conn.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("a connection of a killed agent reads %v, expected a reset", err)
	}
	if said := b.release(); !strings.Contains(said, "forwarding of subflows to other relays is removed") || b.relay.Run("nft", "list", "ruleset") != "" {
		t.Fatalf("said %q, expected forwarding to be removed", said)
	}
	b.start("relay")
	b.stands(home)
	b.carried(home)
	if said := b.release(); strings.Contains(said, "other relays") {
		t.Fatalf("said %q, expected what a living agent passes on to stay", said)
	}
}
