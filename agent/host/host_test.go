// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bicast/agent/failover"
	"bicast/agent/mptcpctl"
	"bicast/agent/probing"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/lab"
	"bicast/mptcp"
)

func open(t *testing.T, netns string, role agentv1.Role) *Host {
	t.Helper()
	h, err := Open(Settings{
		Netns: netns, Role: role, Sharers: filepath.Join(t.TempDir(), "sharers"), Log: slog.New(slog.DiscardHandler), Guard: []string{"/bin/true"},
		Identity: func() (trust.Identity, error) { return trust.Identity{}, errors.New("this host has not joined") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func told(t *testing.T, hello *agentv1.Hello, name string) *agentv1.Capability {
	t.Helper()
	for _, one := range hello.GetCapabilities() {
		if one.GetName() == name {
			return one
		}
	}
	t.Fatalf("%v, expected it to tell of %s", hello, name)
	return nil
}

func TestHelloNamesMissingCapabilitiesWithReasons(t *testing.T) {
	client, _ := lab.Two(t)
	hello := open(t, client.Path(), agentv1.Role_ROLE_TERMINAL).Hello()
	if !told(t, hello, "report").GetAvailable() || !told(t, hello, "mptcp").GetAvailable() {
		t.Fatalf("%v, expected root to be able to do both here", hello)
	}
	if hello.GetPathManager() != agentv1.PathManager_PATH_MANAGER_KERNEL || hello.GetKernel() == "" {
		t.Fatalf("%v, expected the kernel's path manager and release", hello)
	}
	if !strings.Contains(strings.Join(hello.GetAddresses(), " "), "10.2.0.1") {
		t.Fatalf("%v, expected this namespace's addresses", hello.GetAddresses())
	}
	for role, reason := range map[agentv1.Role]string{
		agentv1.Role_ROLE_GATEWAY: "forwards", agentv1.Role_ROLE_RELAY: "userspace path manager",
	} {
		mptcp := told(t, open(t, client.Path(), role).Hello(), "mptcp")
		if mptcp.GetAvailable() || !strings.Contains(mptcp.GetReason(), reason) {
			t.Fatalf("%v as %v, expected a reason with %q", mptcp, role, reason)
		}
	}
}

func TestAMissingNamespaceIsAnError(t *testing.T) {
	if _, err := Open(Settings{Netns: "nowhere", Role: agentv1.Role_ROLE_TERMINAL}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatalf("%v, expected the namespace to be named", err)
	}
}

func TestReportContainsTheNamespacesConnections(t *testing.T) {
	client, server := lab.Two(t)
	conn := client.Dial(server.Echo(lab.Service+":0"), "10.1.0.1")
	if err := lab.Exchange(conn, 1000); err != nil {
		t.Fatal(err)
	}
	report, err := open(t, client.Path(), agentv1.Role_ROLE_TERMINAL).Report()
	if err != nil {
		t.Fatal(err)
	}
	if len(report.GetConnections()) != 1 || report.GetConnections()[0].GetToken() == 0 {
		t.Fatalf("%v, expected the MPTCP connection", report)
	}
	if s := report.GetConnections()[0].GetSubflows()[0]; s.GetLocalAddress() != "10.1.0.1" || s.GetSegmentsDelivered() == 0 {
		t.Fatalf("%v, expected 10.1.0.1 and what was delivered", s)
	}
}

// A proxy of terminals has connections with addresses that no device of the host has.
func TestAGatewayReportsNoInterceptedConnections(t *testing.T) {
	const stranger = "45.0.0.1"
	client, server := lab.Two(t)
	server.Run("ip", "route", "add", "local", stranger, "dev", "lo")
	client.Run("ip", "route", "add", stranger, "via", "10.1.0.2")
	for _, to := range []netip.AddrPort{server.TCPEcho(stranger + ":0"), server.TCPEcho("10.1.0.2:0")} {
		if err := lab.Exchange(client.Dial(to, "10.1.0.1"), 1000); err != nil {
			t.Fatal(err)
		}
	}
	for role, expected := range map[agentv1.Role]int{agentv1.Role_ROLE_GATEWAY: 1, agentv1.Role_ROLE_TERMINAL: 2} {
		report, err := open(t, server.Path(), role).Report()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(report.GetConnections()); n != expected {
			t.Fatalf("%v: %v, expected %d", role, report.GetConnections(), expected)
		}
	}
}

func TestOrdersAreRefusedWithAReasonWithoutMPTCP(t *testing.T) {
	h := &Host{role: agentv1.Role_ROLE_TERMINAL}
	h.kernel.Missing = &mptcp.Error{Kind: mptcp.NoMPTCP, What: "this kernel has no MPTCP"}
	for _, directive := range []*agentv1.Directive{
		{Order: &agentv1.Directive_Prefer{}}, {Order: &agentv1.Directive_Arm{}},
	} {
		if result := h.Obey(context.Background(), directive); result.GetDone() || !strings.Contains(result.GetAnswer(), "no MPTCP") {
			t.Fatalf("%v, expected a refusal with the reason", result)
		}
	}
}

// anyKernel is a kernel with one connection. It accepts every call.
type anyKernel struct{}

func (anyKernel) Connections() ([]mptcp.Connection, error) {
	address := netip.MustParseAddrPort("10.0.1.7:1")
	return []mptcp.Connection{{Token: 1, Serves: true, Subflows: []mptcp.Subflow{{Local: address, Remote: address}}}}, nil
}

func (anyKernel) PathManagerOf(mptcp.Connection) (mptcp.PathManager, error) {
	return mptcp.UserspaceManager, nil
}

func (anyKernel) Prefer(mptcp.Connection, []mptcp.Subflow, []mptcp.Subflow, bool) (mptcp.Change, error) {
	return mptcp.Change{}, nil
}

func (anyKernel) PreferEndpoints([]netip.Addr, []netip.Addr, bool) (mptcp.Change, error) {
	return mptcp.Change{}, nil
}

// nowhere runs nothing, as on a host without a network.
func nowhere(func() error) error { return errors.New("there is no network") }

func FuzzOrdersNeverPanic(f *testing.F) {
	path := &agentv1.Path{TerminalAddresses: []string{"10.0.1.7"}}
	other := &agentv1.Path{TerminalAddresses: []string{"fe80::1%x"}}
	way := &agentv1.ProbeRoute{Device: "x", Local: "192.0.2.2", Remote: "192.0.2.1"}
	for _, directive := range []*agentv1.Directive{
		{},
		{Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{Path: path, Others: []*agentv1.Path{other}, Hard: true}}},
		{Order: &agentv1.Directive_Arm{Arm: &agentv1.Arm{Name: "x", Watched: path, Fallback: other, NoProgressMs: 60, LeaseMs: 1}}},
		{Order: &agentv1.Directive_Disarm{Disarm: &agentv1.Disarm{Name: "x"}}},
		{Order: &agentv1.Directive_Tunnels{Tunnels: &agentv1.Tunnels{Tunnels: []*agentv1.Tunnel{{Name: "x", Port: "x", Vni: 1}}}}},
		{Order: &agentv1.Directive_Answer{Answer: &agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{
			{Number: 1, Key: make([]byte, 32), HealthPort: 8620, ProbePort: 8631}, {Number: 2, Key: make([]byte, 32), HealthPort: 8620},
		}}}},
		{Order: &agentv1.Directive_Health{Health: &agentv1.HealthProbes{Paths: []*agentv1.HealthPath{
			{Name: "x", Route: way, Port: 8620, Number: 1, Key: make([]byte, 32), PauseMs: 100},
		}}}},
		{Order: &agentv1.Directive_Probe{Probe: &agentv1.Probe{
			Name: "x", Route: way, Port: 8631, Key: make([]byte, 32), ShortestBytes: 16, LongestBytes: 1440, StepBytes: 16, Tries: 10, PauseUs: 200,
			Trains: 1, TrainPackets: 2,
		}}},
	} {
		bytes, err := proto.Marshal(directive)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		directive := &agentv1.Directive{}
		if proto.Unmarshal(bytes, directive) != nil {
			return
		}
		for _, role := range []agentv1.Role{agentv1.Role_ROLE_TERMINAL, agentv1.Role_ROLE_RELAY, agentv1.Role_ROLE_GATEWAY} {
			h := &Host{role: role, executor: &mptcpctl.Executor{Role: role, Kernel: anyKernel{}, Addresses: func() ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("10.0.1.7")}, nil
			}}}
			h.failovers = failover.New(role, anyKernel{}.Connections, h.executor.Prefer, slog.New(slog.DiscardHandler))
			h.measuring = probing.NewExecutor(nowhere, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if result := h.Obey(ctx, directive); result == nil || result.GetAnswer() == "" {
				t.Fatalf("%v is answered by %v, expected a result that says something", directive, result)
			}
			cancel()
		}
	})
}

func TestOnlyAGatewayHasTunnels(t *testing.T) {
	host := lab.One(t)
	order := &agentv1.Directive{Order: &agentv1.Directive_Tunnels{Tunnels: &agentv1.Tunnels{Tunnels: []*agentv1.Tunnel{
		{Name: "dsl", Port: "tun", Vni: 42, UdpPort: 51820, Remote: "192.0.2.1", Key: make([]byte, 32)},
	}}}}
	for _, role := range []agentv1.Role{agentv1.Role_ROLE_TERMINAL, agentv1.Role_ROLE_RELAY} {
		h := open(t, host.Path(), role)
		if able := told(t, h.Hello(), "tunnel"); able.GetAvailable() || !strings.Contains(able.GetReason(), "gateway") {
			t.Fatalf("%v as %v, expected a reason", able, role)
		}
		if result := h.Obey(context.Background(), order); result.GetDone() || !strings.Contains(result.GetAnswer(), "gateway") {
			t.Fatalf("%v as %v, expected a refusal with the reason", result, role)
		}
	}
	if able := told(t, open(t, host.Path(), agentv1.Role_ROLE_GATEWAY).Hello(), "tunnel"); !able.GetAvailable() {
		t.Fatalf("%v, expected root to be able to here", able)
	}
}

// nft blocks on this FIFO until the test continues.
func TestAHangingNftDelaysNoReportAndNoOtherExecutor(t *testing.T) {
	h := open(t, lab.One(t).Path(), agentv1.Role_ROLE_GATEWAY)
	obey := func(order *agentv1.Directive) *agentv1.Result { return h.Obey(context.Background(), order) }
	intercept := func(order *agentv1.Intercept) *agentv1.Directive {
		return &agentv1.Directive{Order: &agentv1.Directive_Intercept{Intercept: order}}
	}
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	gate := filepath.Join(directory, "gate")
	script := fmt.Sprintf("#!/bin/sh\nread -r go <%s\nexec %s \"$@\"\n", gate, nft)
	if err := errors.Join(unix.Mkfifo(gate, 0o600), os.WriteFile(filepath.Join(directory, "nft"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", directory+":"+path)
	ordered := make(chan *agentv1.Result, 1)
	go func() {
		ordered <- obey(intercept(&agentv1.Intercept{
			Port:    "rl-home",
			Uplinks: []*agentv1.InterceptUplink{{Name: "wifi", Port: "rl-wifi", Gateways: []string{"10.97.1.1/24"}}},
			Terminals: []*agentv1.InterceptedTerminal{{
				Name: "television", Addresses: []string{"192.168.1.9"},
				Locals: []*agentv1.LocalAddress{{Uplink: "wifi", Addresses: []string{"10.97.1.2"}}},
			}},
		}))
	}()
	hangs, err := os.OpenFile(gate, os.O_WRONLY, 0) // blocks until nft reads
	if err != nil {
		t.Fatal(err)
	}
	os.Setenv("PATH", path)
	others := make(chan error, 1)
	go func() {
		_, err := h.Report()
		if result := obey(&agentv1.Directive{Order: &agentv1.Directive_Health{Health: &agentv1.HealthProbes{}}}); !result.GetDone() {
			err = errors.Join(err, errors.New(result.GetAnswer()))
		}
		others <- err
	}()
	select {
	case err := <-others:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("nothing is reported while nft hangs")
	}
	if err := hangs.Close(); err != nil {
		t.Error(err)
	}
	t.Log(<-ordered)
	if result := obey(intercept(&agentv1.Intercept{})); !result.GetDone() {
		t.Error(result)
	}
}

func TestMeasuringNamespaceDependsOnTheRole(t *testing.T) {
	host := lab.One(t)
	const port = 18620
	answer := &agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{{Number: 1, Key: make([]byte, 32), HealthPort: port}}}
	taken := func() error {
		conn, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		if err == nil {
			conn.Close()
		}
		return err
	}
	for role, outside := range map[agentv1.Role]bool{
		agentv1.Role_ROLE_TERMINAL: false, agentv1.Role_ROLE_RELAY: false, agentv1.Role_ROLE_GATEWAY: true,
	} {
		h := open(t, host.Path(), role)
		if able := told(t, h.Hello(), "probe"); !able.GetAvailable() {
			t.Fatalf("%v as %v, expected root to be able to here", able, role)
		}
		obey := func(order *agentv1.AnswerProbes) {
			t.Helper()
			if result := h.Obey(context.Background(), &agentv1.Directive{Order: &agentv1.Directive_Answer{Answer: order}}); !result.GetDone() {
				t.Fatalf("%v as %v", result, role)
			}
		}
		obey(answer)
		if here, there := taken() != nil, host.Try(taken) != nil; here != outside || there == outside {
			t.Fatalf("%v answers in this namespace: %v, in its own: %v", role, here, there)
		}
		if report, err := h.Report(); err != nil || report.GetAnswering() == nil {
			t.Fatalf("%v, %v, expected it to tell of answers", report, err)
		}
		obey(nil)
	}
}
