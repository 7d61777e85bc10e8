// SPDX-License-Identifier: Apache-2.0

package mptcpctl_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bicast/agent/mptcpctl"
	"bicast/api/agentv1"
	"bicast/mptcp"
)

const (
	terminal = agentv1.Role_ROLE_TERMINAL
	gateway  = agentv1.Role_ROLE_GATEWAY
	relay    = agentv1.Role_ROLE_RELAY
)

// fakeKernel executes preferences: it sets flags and closes subflows.
type fakeKernel struct {
	connections []mptcp.Connection
	managers    map[mptcp.Token]mptcp.PathManager
	fails       map[mptcp.Token]error
	endpoints   map[netip.Addr]bool // backup flags for new connections
}

func (k *fakeKernel) Connections() ([]mptcp.Connection, error) {
	return slices.Clone(k.connections), nil
}

func (k *fakeKernel) PathManagerOf(c mptcp.Connection) (mptcp.PathManager, error) {
	return k.managers[c.Token], k.fails[c.Token]
}

func (k *fakeKernel) Prefer(c mptcp.Connection, wanted, others []mptcp.Subflow, hard bool) (mptcp.Change, error) {
	if len(wanted) == 0 {
		return mptcp.Change{}, &mptcp.Error{Kind: mptcp.NoPath, What: fmt.Sprintf("%v has no such path", c)}
	}
	for i := range k.connections {
		if k.connections[i].Token == c.Token {
			k.flag(i, hard, func(s mptcp.Subflow) bool { return has(wanted, s) }, func(s mptcp.Subflow) bool { return has(others, s) })
		}
	}
	return mptcp.Change{Manager: mptcp.UserspaceManager, Connections: 1, Did: []string{"moved " + c.Token.String()}}, nil
}

func (k *fakeKernel) PreferEndpoints(wanted, others []netip.Addr, hard bool) (mptcp.Change, error) {
	change := mptcp.Change{Manager: mptcp.KernelManager, Did: []string{"endpoints flagged"}}
	for _, address := range wanted {
		k.endpoints[address] = false
	}
	for _, address := range others {
		k.endpoints[address] = true
	}
	for i, c := range k.connections {
		if k.managers[c.Token] == mptcp.KernelManager {
			change.Connections++
			k.flag(i, hard, func(s mptcp.Subflow) bool { return slices.Contains(wanted, s.Local.Addr()) },
				func(s mptcp.Subflow) bool { return slices.Contains(others, s.Local.Addr()) })
		}
	}
	return change, nil
}

func (k *fakeKernel) flag(i int, hard bool, wanted, others func(mptcp.Subflow) bool) {
	var left []mptcp.Subflow
	for _, s := range k.connections[i].Subflows {
		s.BackupByUs = s.BackupByUs && !wanted(s) || others(s)
		if !hard || !others(s) {
			left = append(left, s)
		}
	}
	k.connections[i].Subflows = left
}

// active returns the addresses, of the end that identifies the path, over which a connection sends.
func (k *fakeKernel) active(role agentv1.Role, token mptcp.Token) string {
	var found []string
	for _, c := range k.connections {
		for _, s := range c.Subflows {
			if c.Token == token && !s.Backup() {
				found = append(found, mptcpctl.End(role, s).String())
			}
		}
	}
	return strings.Join(found, " ")
}

func has(subflows []mptcp.Subflow, s mptcp.Subflow) bool {
	return slices.ContainsFunc(subflows, func(one mptcp.Subflow) bool { return one.Cookie == s.Cookie })
}

const (
	phoneWifi, phoneLTE   = "10.0.1.7", "10.0.2.7"
	laptopWifi, laptopLTE = "10.0.1.8", "10.0.2.8"
	server                = "192.0.2.1"
)

var cookies uint64

func connection(token mptcp.Token, serves bool, ends ...string) mptcp.Connection {
	c := mptcp.Connection{Token: token, Serves: serves}
	for _, end := range ends {
		cookies++
		near := netip.AddrPortFrom(netip.MustParseAddr(end), 40000)
		far := netip.AddrPortFrom(netip.MustParseAddr(server), 443)
		if serves {
			near, far = far, near
		}
		c.Subflows = append(c.Subflows, mptcp.Subflow{Local: near, Remote: far, Cookie: cookies, Established: true})
	}
	return c
}

func under(manager mptcp.PathManager, connections ...mptcp.Connection) *fakeKernel {
	k := &fakeKernel{
		connections: connections, managers: map[mptcp.Token]mptcp.PathManager{}, fails: map[mptcp.Token]error{},
		endpoints: map[netip.Addr]bool{},
	}
	for _, c := range connections {
		k.managers[c.Token] = manager
	}
	return k
}

func order(t *testing.T, role agentv1.Role, kernel *fakeKernel, path, other string, hard bool) (mptcpctl.Outcome, error) {
	t.Helper()
	h := &mptcpctl.Executor{Role: role, Kernel: kernel, Addresses: func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(phoneWifi), netip.MustParseAddr(phoneLTE)}, nil
	}}
	preference, err := mptcpctl.ParsePreference(&agentv1.Prefer{
		Path:   &agentv1.Path{TerminalAddresses: []string{path}},
		Others: []*agentv1.Path{{TerminalAddresses: []string{other}}}, Hard: hard,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h.Prefer(context.Background(), preference)
}

func expectActive(t *testing.T, kernel *fakeKernel, role agentv1.Role, token mptcp.Token, expected string) {
	t.Helper()
	if got := kernel.active(role, token); got != expected {
		t.Fatalf("connection %v sends over %s, expected %s", token, got, expected)
	}
}

func TestTerminalMovesPresentAndFutureConnections(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE), connection(2, false, phoneWifi, phoneLTE))
	outcome, err := order(t, terminal, kernel, phoneLTE, phoneWifi, false)
	if err != nil || outcome.Connections != 2 {
		t.Fatalf("%v, %v, expected 2 connections", outcome, err)
	}
	expectActive(t, kernel, terminal, 1, phoneLTE)
	expectActive(t, kernel, terminal, 2, phoneLTE)
	if !kernel.endpoints[netip.MustParseAddr(phoneWifi)] {
		t.Fatal("new connections would begin on the previous path")
	}
}

func TestTerminalReportsPathsThatThePeerHoldsAsBackup(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE), connection(2, false, phoneWifi, phoneLTE))
	kernel.connections[1].Subflows[1].BackupByPeer = true
	_, err := order(t, terminal, kernel, phoneLTE, phoneWifi, false)
	if !errors.Is(err, mptcp.HeldByPeer) || strings.Contains(err.Error(), "more") {
		t.Fatalf("%v, expected the second connection's other end to be named", err)
	}
	expectActive(t, kernel, terminal, 1, phoneLTE)
	if _, err := order(t, terminal, kernel, phoneLTE, phoneWifi, true); err != nil {
		t.Fatalf("%v, though the path that is left carries all the same", err)
	}
}

func TestTerminalCountsConnectionsWithoutThePath(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE), connection(2, false, phoneWifi),
		connection(3, false, phoneWifi, phoneLTE))
	kernel.connections[2].Subflows[1].Established = false
	for _, hard := range []bool{false, true} {
		outcome, err := order(t, terminal, kernel, phoneLTE, phoneWifi, hard)
		expected := "2 of them have no path over " + phoneLTE + " and were not moved"
		if err != nil || outcome.Connections != 3 || !strings.HasSuffix(outcome.Answer, "; "+expected) {
			t.Fatalf("hard %v: %+v, %v, expected 3 connections and %q", hard, outcome, err, expected)
		}
	}
	outcome, err := order(t, terminal, under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE)), phoneLTE, phoneWifi, false)
	if err != nil || strings.Contains(outcome.Answer, "no path") {
		t.Fatalf("%+v, %v, expected nothing of a path that is missing", outcome, err)
	}
}

func TestTerminalPrefersForFutureConnections(t *testing.T) {
	kernel := under(mptcp.KernelManager)
	if _, err := order(t, terminal, kernel, phoneLTE, phoneWifi, false); err != nil {
		t.Fatal(err)
	}
	if !kernel.endpoints[netip.MustParseAddr(phoneWifi)] {
		t.Fatal("new connections would begin on the previous path")
	}
}

func TestTerminalOrdersByTokenInUserspaceMode(t *testing.T) {
	kernel := under(mptcp.UserspaceManager, connection(1, false, phoneWifi, phoneLTE), connection(2, false, phoneWifi, phoneLTE))
	outcome, err := order(t, terminal, kernel, phoneLTE, phoneWifi, true)
	if err != nil || outcome.Connections != 2 {
		t.Fatalf("%v, %v, expected 2 connections", outcome, err)
	}
	expectActive(t, kernel, terminal, 2, phoneLTE)
	if len(kernel.endpoints) != 0 {
		t.Fatal("the kernel's path manager, which rules nothing here, was ordered")
	}
}

func TestTerminalRefusesForeignAddresses(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE))
	_, err := order(t, terminal, kernel, laptopLTE, phoneWifi, false)
	if err == nil || !strings.Contains(err.Error(), laptopLTE) {
		t.Fatalf("%v, expected a refusal that names %s", err, laptopLTE)
	}
	expectActive(t, kernel, terminal, 1, phoneWifi+" "+phoneLTE)
}

func TestRelayMovesOneTerminalOnly(t *testing.T) {
	kernel := under(mptcp.UserspaceManager,
		connection(1, true, phoneWifi, phoneLTE), connection(2, true, laptopWifi, laptopLTE), connection(3, false, phoneWifi))
	outcome, err := order(t, relay, kernel, phoneLTE, phoneWifi, false)
	if err != nil || outcome.Connections != 1 {
		t.Fatalf("%v, %v, expected 1 connection", outcome, err)
	}
	expectActive(t, kernel, relay, 1, phoneLTE)
	expectActive(t, kernel, relay, 2, laptopWifi+" "+laptopLTE)
}

func TestRelayRefusesOrdersThatAffectEveryClient(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, true, phoneWifi, phoneLTE), connection(2, true, laptopWifi, laptopLTE))
	outcome, err := order(t, relay, kernel, phoneLTE, phoneWifi, false)
	if err == nil || !strings.Contains(err.Error(), "every client") || outcome.Connections != 0 {
		t.Fatalf("%v, %v, expected a refusal that names the affected clients", outcome, err)
	}
	expectActive(t, kernel, relay, 1, phoneWifi+" "+phoneLTE)
	expectActive(t, kernel, relay, 2, laptopWifi+" "+laptopLTE)
}

func TestGatewayRefusesPreferences(t *testing.T) {
	kernel := under(mptcp.KernelManager, connection(1, false, phoneWifi, phoneLTE))
	if _, err := order(t, gateway, kernel, phoneLTE, phoneWifi, false); err == nil {
		t.Fatal("a gateway moved a connection")
	}
}

func TestPreferIgnoresClosedConnectionsOnly(t *testing.T) {
	kernel := under(mptcp.UserspaceManager,
		connection(1, true, phoneWifi, phoneLTE), connection(2, true, phoneWifi), connection(3, true, phoneWifi, phoneLTE))
	kernel.fails[3] = &mptcp.Error{Kind: mptcp.Gone, What: "it has ended"}
	outcome, err := order(t, relay, kernel, phoneLTE, phoneWifi, false)
	if err == nil || !strings.Contains(err.Error(), "no such path") || strings.Contains(err.Error(), "more") {
		t.Fatalf("the error is %v, expected only the connection without LTE in it", err)
	}
	if outcome.Connections != 1 {
		t.Fatalf("%d connections reached, expected 1", outcome.Connections)
	}
	expectActive(t, kernel, relay, 1, phoneLTE)
}

func TestHardClosesSubflowsOfTheDeadPath(t *testing.T) {
	kernel := under(mptcp.UserspaceManager, connection(1, true, phoneWifi, phoneLTE))
	if _, err := order(t, relay, kernel, phoneLTE, phoneWifi, true); err != nil {
		t.Fatal(err)
	}
	if left := kernel.connections[0].Subflows; len(left) != 1 {
		t.Fatalf("%v are left, expected LTE alone", left)
	}
}

func TestParsePreferenceRefusesInvalidOrders(t *testing.T) {
	path := func(addresses ...string) *agentv1.Path { return &agentv1.Path{TerminalAddresses: addresses} }
	for name, wrong := range map[string]*agentv1.Prefer{
		"nothing":       nil,
		"no path":       {Others: []*agentv1.Path{path(phoneLTE)}},
		"no address":    {Path: path("wifi")},
		"an empty path": {Path: path(), Others: []*agentv1.Path{path(phoneLTE)}},
		"a bad other":   {Path: path(phoneWifi), Others: []*agentv1.Path{path("10.0.0")}},
		"both":          {Path: path(phoneWifi), Others: []*agentv1.Path{path("::ffff:" + phoneWifi)}},
		"hard of none":  {Path: path(phoneWifi), Hard: true},
	} {
		if _, err := mptcpctl.ParsePreference(wrong); err == nil {
			t.Errorf("%s: nothing was refused", name)
		}
	}
}
