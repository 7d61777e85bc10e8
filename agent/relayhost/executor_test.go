// SPDX-License-Identifier: Apache-2.0

package relayhost

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/internal/mtls"
)

const (
	patience = time.Minute // the machine may stall
	server4  = "45.0.0.2:80"
	server6  = "[2a0f::2]:80"
)

// road is gateway 10.0.1.1 ─ 10.0.1.2 relay 45.0.0.1 ─ 45.0.0.2 server, an echo server.
type road struct {
	t                      *testing.T
	gateway, relay, server *lab.Host
	authority              *controllertest.Authority
	is                     trust.Identity // the relay's
	executor               *Executor
	end                    func()
}

func newRoad(t *testing.T) *road {
	r := &road{t: t, gateway: lab.One(t), relay: lab.One(t), server: lab.One(t), authority: controllertest.NewAuthority(t)}
	r.link(r.gateway, "10.0.1.1/24", r.relay, "10.0.1.2/24")
	r.link(r.relay, "45.0.0.1/24", r.server, "45.0.0.2/24")
	for i, host := range []*lab.Host{r.relay, r.server} {
		host.Run("ip", "address", "add", fmt.Sprintf("2a0f::%d/64", i+1), "dev", "eth"+fmt.Sprint(1-i), "nodad")
	}
	r.server.Run("ip", "address", "add", "45.0.0.3/24", "dev", "eth0") // where nobody listens
	for _, address := range []string{server4, server6} {
		r.server.TCPEcho(address)
	}
	r.is = r.authority.Identity("tokyo", "controller:1")
	r.executor = NewExecutor(r.relay.Try, func(_ context.Context, work func() error) error { return r.relay.Try(work) }, func() (trust.Identity, error) { return r.is, nil }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.executor.Run(ctx)
	}()
	r.end = func() {
		stop()
		<-ended
	}
	t.Cleanup(r.end)
	return r
}

// link connects the left host's eth1 to the right host's eth0.
func (r *road) link(left *lab.Host, at string, right *lab.Host, there string) {
	left.Run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", right.Path())
	for _, end := range []struct {
		host            *lab.Host
		device, address string
	}{{left, "eth1", at}, {right, "eth0", there}} {
		end.host.Sysctl("ipv6/conf/"+end.device+"/accept_dad", "0")
		end.host.Run("ip", "address", "add", end.address, "dev", end.device)
		end.host.Run("ip", "link", "set", end.device, "up")
	}
}

func guest(is trust.Identity) *agentv1.RelayClient {
	sum := mtls.KeySum(is.Certificate)
	return &agentv1.RelayClient{Name: is.Name, KeySha256: sum}
}

func (r *road) order(port uint32, guests ...*agentv1.RelayClient) *agentv1.Relay {
	return &agentv1.Relay{
		Port: port, Certificate: r.authority.Relay("tokyo", &r.is.Key.PublicKey, nil).Raw, Gateways: guests,
		Allowed: []*agentv1.PortRange{{First: 80, Last: 80}}, Congestion: "reno",
	}
}

func (r *road) obeys(order *agentv1.Relay) {
	r.t.Helper()
	if said, err := r.executor.Order(order); err != nil || strings.Contains(said, "not yet") {
		r.t.Fatalf("%q, %v", said, err)
	}
}

// tunnel returns a gateway's connection to a server and the code of the answer; nil: the relay refused the gateway.
func (r *road) tunnel(is trust.Identity, port int, to string) (*tls.Conn, *bufio.Reader, int) {
	r.t.Helper()
	var conn *tls.Conn
	shows := tls.Certificate{Certificate: [][]byte{is.Certificate.Raw}, PrivateKey: is.Key}
	r.gateway.Try(func() error {
		wire, err := net.DialTimeout("tcp", fmt.Sprintf("10.0.1.2:%d", port), patience)
		if err == nil {
			conn = tls.Client(wire, mtls.Calling(shows, is.Authority(), "tokyo", nil))
		}
		return err
	})
	if conn == nil {
		return nil, nil, 0
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	lines := bufio.NewReader(conn)
	answer, err := http.ReadResponse(lines, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, nil, 0
	}
	return conn, lines, answer.StatusCode
}

func (r *road) carried(is trust.Identity, port int, to string) (*tls.Conn, *bufio.Reader) {
	r.t.Helper()
	conn, lines, code := r.tunnel(is, port, to)
	if code != http.StatusOK {
		r.t.Fatalf("the relay answers %d to %s, expected %d", code, is.Name, http.StatusOK)
	}
	r.speaks(conn, lines)
	return conn, lines
}

func (r *road) speaks(conn *tls.Conn, lines *bufio.Reader) {
	r.t.Helper()
	io.WriteString(conn, "hello\n")
	if line, err := lines.ReadString('\n'); line != "hello\n" {
		r.t.Fatalf("the server's words come as %q (%v)", line, err)
	}
}

func (r *road) eventually(what string, so func(*agentv1.RelayReport) bool) {
	r.t.Helper()
	for late := time.Now().Add(patience); !so(r.executor.Report()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("it never came that %s: %v", what, r.executor.Report())
		}
	}
}

func TestTheRelayServesOnlyTheNamedCertificates(t *testing.T) {
	r := newRoad(t)
	home := r.authority.Identity("home", "controller:1")
	r.obeys(r.order(4433, guest(home)))
	r.carried(home, 4433, server4)
	r.carried(home, 4433, server6)
	if said := r.relay.Run("ss", "-Htin", "dst", "45.0.0.2"); !strings.Contains(said, " reno ") {
		t.Fatalf("connections to servers use %s, expected reno", said)
	}
	of := r.authority.Relay("home", &home.Key.PublicKey, nil)
	for what, is := range map[string]trust.Identity{
		"another agent":               r.authority.Identity("elsewhere", "controller:1"),
		"a replaced certificate":      r.authority.Identity("home", "controller:1"),
		"another authority's":         controllertest.NewAuthority(t).Identity("home", "controller:1"),
		"a certificate to serve with": {Name: "home", Certificate: of, CA: home.CA, Key: home.Key},
	} {
		if _, _, code := r.tunnel(is, 4433, server4); code != 0 {
			t.Errorf("a peer with %s gets the answer %d, expected none", what, code)
		}
	}
	for to, code := range map[string]int{
		"45.0.0.2:81": http.StatusForbidden, "10.0.1.1:80": http.StatusForbidden, "45.0.0.3:80": http.StatusBadGateway,
	} {
		if _, _, answered := r.tunnel(home, 4433, to); answered != code {
			t.Errorf("%s is answered %d, expected %d", to, answered, code)
		}
	}
	r.eventually("everything is counted", func(said *agentv1.RelayReport) bool {
		return said.GetConnections() == 2 && said.GetCarried() == 2 && said.GetUnauthenticated() == 4 && said.GetRefused() == 2 &&
			said.GetFailed() == 1 && said.GetBytesUp() == 12 && said.GetBytesDown() == 12 && said.GetOverheadUs() > 0 &&
			said.GetWaiting() == 0 && said.GetReason() == "" && said.GetCongestion() == "reno"
	})
}

func TestANewOrderClosesOnlyRemovedGateways(t *testing.T) {
	r := newRoad(t)
	home, gone := r.authority.Identity("home", "controller:1"), r.authority.Identity("gone", "controller:1")
	r.obeys(r.order(4433, guest(home), guest(gone)))
	stays, its := r.carried(home, 4433, server4)
	_, cut := r.carried(gone, 4433, server4)
	r.obeys(r.order(4434, guest(home)))
	if _, err := cut.ReadByte(); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("a connection of a removed gateway reads %v, expected a reset", err)
	}
	r.speaks(stays, its)
	if _, _, code := r.tunnel(home, 4433, server4); code != 0 {
		t.Fatalf("the previous port answers %d, expected no listener", code)
	}
	r.carried(home, 4434, server4)

	onward := r.order(4434, guest(home))
	onward.Onward = []*agentv1.PortForward{{Port: 5001, Address: "45.0.0.2", OtherPort: 443}}
	r.obeys(onward)
	if ruled := r.relay.Run("nft", "list", "ruleset"); !strings.Contains(ruled, "tcp dport 5001") {
		t.Fatalf("the rules are %s, expected such as pass on what comes to port 5001", ruled)
	}

	draining := r.order(4434, guest(home))
	draining.Draining, draining.Congestion = true, ""
	r.obeys(draining)
	if _, _, code := r.tunnel(home, 4434, server4); code != http.StatusServiceUnavailable || !r.executor.Report().GetDraining() {
		t.Fatalf("a relay that is drained answers %d, expected %d", code, http.StatusServiceUnavailable)
	}
	r.speaks(stays, its)

	if ruled := r.relay.Run("nft", "list", "ruleset"); ruled != "" {
		t.Fatalf("%s is left", ruled)
	}

	r.obeys(&agentv1.Relay{})
	if _, err := its.ReadByte(); !errors.Is(err, unix.ECONNRESET) || r.executor.Report() != nil {
		t.Fatalf("a connection of an ended relay reads %v, expected a reset", err)
	}
}

func TestABadOrderIsExplainedAndChangesNothing(t *testing.T) {
	r := newRoad(t)
	home := r.authority.Identity("home", "controller:1")
	r.obeys(r.order(4433, guest(home)))
	certified := func(name string, of trust.Identity, change func(*x509.Certificate)) func(*agentv1.Relay) {
		return func(order *agentv1.Relay) { order.Certificate = r.authority.Relay(name, &of.Key.PublicKey, change).Raw }
	}
	for words, bend := range map[string]func(*agentv1.Relay){
		"port 65536, expected":          func(o *agentv1.Relay) { o.Port = 65536 },
		"is empty or used twice":        func(o *agentv1.Relay) { o.Gateways = append(o.Gateways, guest(home)) },
		"key_sha256: 1 byte,":           func(o *agentv1.Relay) { o.Gateways[0].KeySha256 = []byte{1} },
		"0 ranges, expected 1":          func(o *agentv1.Relay) { o.Allowed = nil },
		"allowed: port 0":               func(o *agentv1.Relay) { o.Allowed[0].First = 0 },
		"the lower one first":           func(o *agentv1.Relay) { o.Allowed[0] = &agentv1.PortRange{First: 443, Last: 80} },
		`control "other" cannot be had`: func(o *agentv1.Relay) { o.Congestion = "other" },
		`address "fe80::1", expected`: func(o *agentv1.Relay) {
			o.Onward = []*agentv1.PortForward{{Port: 5001, Address: "fe80::1", OtherPort: 443}}
		},
		"port 4434 is the relay's own or listed twice": func(o *agentv1.Relay) {
			o.Onward = []*agentv1.PortForward{{Port: 4434, Address: "45.0.0.9", OtherPort: 443}}
		},
		"invalid server certificate": func(o *agentv1.Relay) { o.Certificate = []byte("x") },
		"for another key":            certified("tokyo", home, nil),
		`for the names ["osaka"]`:    certified("osaka", r.is, nil),
		"check the clock": certified("tokyo", r.is, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}),
		"not allow server authentication": certified("tokyo", r.is, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}),
		"not signed by the CA": func(o *agentv1.Relay) {
			o.Certificate = controllertest.NewAuthority(t).Relay("tokyo", &r.is.Key.PublicKey, nil).Raw
		},
	} {
		order := proto.CloneOf(r.order(4434, guest(home)))
		bend(order)
		if said, err := r.executor.Order(order); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q, %v: expected a refusal with %q", said, err, words)
		}
	}
	r.carried(home, 4433, server4)
}

func TestABusyRelayPortIsReportedAndRetried(t *testing.T) {
	r := newRoad(t)
	home := r.authority.Identity("home", "controller:1")
	var stranger net.Listener
	r.relay.Do(func() (err error) {
		stranger, err = net.Listen("tcp", ":4433")
		return err
	})
	said, err := r.executor.Order(r.order(4433, guest(home)))
	if err != nil || !strings.Contains(said, "not yet") || !strings.Contains(r.executor.Report().GetReason(), "another program listens") {
		t.Fatalf("%q, %v, %v", said, err, r.executor.Report())
	}
	stranger.Close()
	r.eventually("the door is open", func(said *agentv1.RelayReport) bool { return said.GetReason() == "" })
	_, lines := r.carried(home, 4433, server4)
	if reason := r.executor.reason(time.Now().Add(24 * time.Hour)); !strings.Contains(reason, "certificate expired at") {
		t.Fatalf("reason %q for an expired certificate", reason)
	}
	r.end()
	if _, err := lines.ReadByte(); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("a connection of an ending agent reads %v, expected a reset", err)
	}
}

func TestTheBusiestProcessorCounts(t *testing.T) {
	before := processors([]byte("cpu  30 0 0 170 0 0 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0 0 0\ncpu1 20 0 0 80 0 0 0 0 0 0\nintr 1 2 3\n"))
	after := processors([]byte("cpu0 15 0 0 180 5 0 0 0 0 0\ncpu1 50 10 5 115 0 10 5 5 0 0\ncpu2 9 0 0 0 0 0 0 0 0 0\n"))
	if found := busiest(before, after); found != 55 {
		t.Fatalf("%d %%, expected 55: of 100 ticks the second one's were 35 idle and 10 nice, and the third one is new", found)
	}
}
