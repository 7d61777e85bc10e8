// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bicast/agent/command"
	"bicast/agent/internal/controllertest"
	"bicast/agent/relayhost"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/internal/mtls"
)

// With this variable in its environment, the test program runs as bicast-agent.
const asAgent = "BICAST_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	switch verb, rest := os.Args[1], os.Args[2:]; verb {
	case "run":
		os.Exit(command.Run(rest, os.Stdout, os.Stderr))
	case "take":
		os.Exit(command.Take(rest, os.Stdout, os.Stderr))
	case "release":
		os.Exit(command.Release(rest, os.Stdout, os.Stderr))
	case command.GuardVerb:
		os.Exit(command.Guard(rest, os.Stderr))
	}
	os.Exit(99)
}

const (
	television4, television6 = "192.168.7.2", "fd07::2"
	tablet4, tablet6         = "192.168.7.3", "fd07::3"
	server4, server6         = "45.0.0.2", "2a0f::2"
	relay4, relay6           = "45.0.0.1", "2a0f::1" // as servers see it
	within                   = time.Minute

	hostMAC = "02:62:69:63:61:73"
)

// house is a gateway with a real agent. A router takes the place of its bridge and leads terminals' TCP to the agent:
//
//	terminals 192.168.7.2, .3 ─ bridge ─ wifi 10.1.0.1 ═ 10.1.0.2 relay 45.0.0.1 ─ 45.0.0.2 server
//	          fd07::2, ::3        │    └ lte  10.2.0.1 ═ 10.2.0.2  10.9.9.9
//	                           gateway
type house struct {
	t                                         *testing.T
	terminals, bridge, gateway, relay, server *lab.Host
	brain                                     *controllertest.Controller
	visit                                     *controllertest.Visit
	directory                                 string
	agent                                     *exec.Cmd
	relays                                    map[string]*relayhost.Executor
	identities                                map[string]trust.Identity // of relays
	directives                                uint64
}

func newHouse(t *testing.T) *house {
	t.Parallel() // the tests mostly wait
	h := &house{
		t: t, terminals: lab.One(t), bridge: lab.One(t), gateway: lab.One(t), relay: lab.One(t), server: lab.One(t),
		brain: controllertest.New(t), relays: map[string]*relayhost.Executor{}, identities: map[string]trust.Identity{},
	}
	for _, host := range []*lab.Host{h.terminals, h.bridge, h.gateway, h.relay, h.server} {
		host.Sysctl("ipv6/conf/default/accept_dad", "0") // or routers ask for neighbours after two seconds
		for _, which := range []string{"all", "default"} {
			host.Sysctl("ipv4/conf/"+which+"/rp_filter", "0")
		}
	}
	h.link(h.terminals, "home", "192.168.7.2/24 192.168.7.3/24 fd07::2/64 fd07::3/64", h.bridge, "192.168.7.1/24 fd07::1/64")
	h.link(h.bridge, "wifi", "10.1.0.1/24 fd11::1/64", h.relay, "10.1.0.2/24 fd11::2/64")
	h.link(h.bridge, "lte", "10.2.0.1/24 fd12::1/64", h.relay, "10.2.0.2/24 fd12::2/64")
	h.link(h.relay, "web", "45.0.0.1/24 2a0f::1/64", h.server, "45.0.0.2/24 45.0.0.3/24 2a0f::2/64")
	has(h.relay, "lo", "10.9.9.9/32 fd09::9/128")
	h.routes(h.terminals, "default via 192.168.7.1", "default via fd07::1")
	h.routes(h.bridge, "default via 10.1.0.2", "default via fd11::2", "default via 10.2.0.2 table 102", "default via fd12::2 table 102")
	h.routes(h.relay, "192.168.7.0/24 via 10.1.0.1", "10.97.1.0/24 via 10.1.0.1", "10.97.2.0/24 via 10.2.0.1",
		"fd07::/64 via fd11::1", "fd97:1::/64 via fd11::1", "fd97:2::/64 via fd12::1")
	h.routes(h.server, "default via 45.0.0.1", "default via 2a0f::1")
	h.bridge.Run("ip", "rule", "add", "from", "10.97.2.0/24", "lookup", "102")
	h.bridge.Run("ip", "-6", "rule", "add", "from", "fd97:2::/64", "lookup", "102")
	for _, router := range []*lab.Host{h.bridge, h.relay} {
		router.Sysctl("ipv4/ip_forward", "1")
		router.Sysctl("ipv6/conf/all/forwarding", "1")
	}
	h.serves("80", echo)
	h.directory = h.brain.Directory("home")
	h.start()
	return h
}

// link connects two hosts by devices of the same name.
func (h *house) link(left *lab.Host, name, here string, right *lab.Host, there string) {
	left.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", right.Path())
	for host, addresses := range map[*lab.Host]string{left: here, right: there} {
		host.Run("ip", "link", "set", name, "up")
		has(host, name, addresses)
	}
}

func has(host *lab.Host, device, addresses string) {
	for _, address := range strings.Fields(addresses) {
		words := []string{"ip", "address", "add", address, "dev", device}
		if strings.Contains(address, "::") {
			words = append(words, "nodad")
		}
		host.Run(words...)
	}
}

func (h *house) routes(host *lab.Host, routes ...string) {
	for _, route := range routes {
		family := "-4"
		if strings.Contains(route, "::") {
			family = "-6"
		}
		host.Run(append([]string{"ip", family, "route", "add"}, strings.Fields(route)...)...)
	}
}

// program returns bicast-agent in the gateway's namespace.
func (h *house) program(verb string, words ...string) *exec.Cmd {
	process := exec.Command("/proc/self/exe", append([]string{verb, "--netns", h.gateway.Path()}, words...)...)
	process.Env = append(os.Environ(), asAgent+"=1")
	return process
}

func (h *house) start() {
	h.t.Helper()
	agent := h.program("run", "--role", "gateway", "--directory", h.directory)
	said, err := os.CreateTemp(h.t.TempDir(), "said")
	if err != nil {
		h.t.Fatal(err)
	}
	agent.Stderr = said
	if err := agent.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
		if text, err := os.ReadFile(said.Name()); err == nil && h.t.Failed() {
			h.t.Logf("the agent said:\n%s", text)
		}
	})
	h.agent = agent
	h.visit, _ = h.brain.Welcomed(100)
}

func (h *house) end(by os.Signal) {
	h.agent.Process.Signal(by)
	h.agent.Wait()
}

// stands starts a relay at a port.
func (h *house) stands(name string, port uint32) {
	h.t.Helper()
	is := h.is(name)
	executor := relayhost.NewExecutor(h.relay.Try, func(_ context.Context, work func() error) error { return h.relay.Try(work) }, func() (trust.Identity, error) { return is, nil }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		executor.Run(ctx)
	}()
	h.t.Cleanup(func() {
		stop()
		<-ended
	})
	home, err := trust.Load(h.directory)
	if err != nil {
		h.t.Fatal(err)
	}
	sum := mtls.KeySum(home.Certificate)
	if said, err := executor.Order(&agentv1.Relay{
		Port: port, Certificate: h.brain.Authority.Relay(name, &is.Key.PublicKey, nil).Raw,
		Gateways: []*agentv1.RelayClient{{Name: "home", KeySha256: sum}}, Allowed: []*agentv1.PortRange{{First: 80, Last: 8099}},
	}); err != nil || strings.Contains(said, "not yet") {
		h.t.Fatal(said, err)
	}
	h.relays[name] = executor
}

// drains orders one relay to drain.
func (h *house) drains(name string, order *agentv1.Intercept) {
	for _, each := range order.GetRelays() {
		each.Draining = each.GetName() == name
	}
	h.takes(order)
}

// falls ends a relay and thereby resets its connections.
func (h *house) falls(name string) {
	h.t.Helper()
	if _, err := h.relays[name].Order(&agentv1.Relay{}); err != nil {
		h.t.Fatal(err)
	}
}

// is returns the identity of a relay, made at the first call.
func (h *house) is(name string) trust.Identity {
	one, known := h.identities[name]
	if !known {
		one = h.brain.Authority.Identity(name, "controller:1")
		h.identities[name] = one
	}
	return one
}

// order returns an order with two terminals and two uplinks.
func (h *house) order(relays ...string) *agentv1.Intercept {
	order := &agentv1.Intercept{
		Port: "rl-home", Excepted: []string{"203.0.113.0/24"},
		Uplinks: []*agentv1.InterceptUplink{
			{Name: "wifi", Port: "rl-wifi", Gateways: []string{"10.97.1.1/24", "fd97:1::1/64"}},
			{Name: "lte", Port: "rl-lte", Gateways: []string{"10.97.2.1/24", "fd97:2::1/64"}},
		},
		Terminals: []*agentv1.InterceptedTerminal{
			{Name: "television", Addresses: []string{television4, television6}, Locals: []*agentv1.LocalAddress{
				{Uplink: "wifi", Addresses: []string{"10.97.1.2", "fd97:1::2"}}, {Uplink: "lte", Addresses: []string{"10.97.2.2", "fd97:2::2"}},
			}},
			{Name: "tablet", Addresses: []string{tablet4, tablet6}, Locals: []*agentv1.LocalAddress{
				{Uplink: "lte", Addresses: []string{"10.97.2.3", "fd97:2::3"}}, {Uplink: "wifi", Addresses: []string{"10.97.1.3", "fd97:1::3"}},
			}},
		},
	}
	for i, name := range relays {
		order.Relays = append(order.Relays, &agentv1.InterceptRelay{
			Name: name, Address: "10.9.9.9", Port: uint32(4433 + i), KeySha256: mtls.KeySum(h.is(name).Certificate),
		})
	}
	return order
}

// says sends a directive and returns its result.
func (h *house) says(directive *agentv1.Directive) *agentv1.Result {
	h.t.Helper()
	h.directives++
	directive.Id = h.directives
	h.visit.Order(directive)
	return h.visit.Result()
}

func (h *house) takes(order *agentv1.Intercept) {
	h.t.Helper()
	if result := h.says(&agentv1.Directive{Order: &agentv1.Directive_Intercept{Intercept: order}}); !result.GetDone() {
		h.t.Fatalf("%v, expected it done", result)
	}
}

func (h *house) chooses(choices ...*agentv1.RelayChoice) {
	h.t.Helper()
	order := &agentv1.Choices{Choices: choices}
	if result := h.says(&agentv1.Directive{Order: &agentv1.Directive_Choices{Choices: order}}); !result.GetDone() {
		h.t.Fatalf("%v, expected it done", result)
	}
}

// connected moves the bridge's ends to the router, which forwards as a bridge does.
func (h *house) connected() {
	h.t.Helper()
	for port, addresses := range map[string]string{
		"rl-home": "", "rl-wifi": "10.97.1.1/24 fd97:1::1/64", "rl-lte": "10.97.2.1/24 fd97:2::1/64",
	} {
		h.gateway.Run("ip", "link", "set", port, "netns", h.bridge.Path())
		h.bridge.Sysctl("ipv6/conf/"+port+"/disable_ipv6", "0")
		h.bridge.Run("ip", "link", "set", port, "up")
		has(h.bridge, port, addresses)
	}
	h.bridge.Run("ip", "link", "set", "rl-home", "address", hostMAC) // routers accept only frames to their own address
	for family, via := range map[string]string{"-4": "192.0.0.9", "-6": "fe80::9"} {
		h.bridge.Run("ip", family, "route", "add", "default", "via", via, "dev", "rl-home", "onlink", "table", "101")
		h.bridge.Run("ip", family, "neigh", "replace", via, "lladdr", hostMAC, "dev", "rl-home", "nud", "permanent")
		h.bridge.Run("ip", family, "rule", "add", "iif", "home", "ipproto", "tcp", "lookup", "101")
	}
}

// ordered returns a house that intercepts two terminals for relays at ports from 4433 on.
func ordered(t *testing.T, block bool, relays ...string) *house {
	h := newHouse(t)
	for i, name := range relays {
		h.stands(name, uint32(4433+i))
	}
	order := h.order(relays...)
	order.Block = block
	h.takes(order)
	h.connected()
	for _, name := range relays {
		h.reached(name, true)
	}
	return h
}

// taking returns that part of the next report.
func (h *house) taking() *agentv1.InterceptionReport {
	h.t.Helper()
	report := h.visit.Report()
	h.visit.Take(report)
	return report.GetInterception()
}

func (h *house) reached(relay string, so bool) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("the reachability of %s is reported as %v", relay, so), func() bool {
		for _, each := range h.taking().GetRelays() {
			if each.GetName() == relay {
				return (each.GetReason() == "") == so
			}
		}
		return false
	})
}
