package onward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bicast/internal/lab"
	"bicast/mptcp"
)

const within = 10 * time.Second

// corner is gateway .1 ─ 10.0.1.0/24 ─ .2 relay .1 ─ 10.0.2.0/24 ─ .2 other, and gateway .1 ─ 10.0.3.0/24 ─ .2 other; likewise fd01::/64
// and so on. The other one does not know the way back to the gateway by the relay.
func corner(t *testing.T) (gateway, relay, other *lab.Host) {
	gateway, relay, other = lab.One(t), lab.One(t), lab.One(t)
	for n, link := range [][2]*lab.Host{{gateway, relay}, {relay, other}, {gateway, other}} {
		device := fmt.Sprintf("net%d", n+1)
		link[0].Run("ip", "link", "add", device, "type", "veth", "peer", "name", device, "netns", link[1].Path())
		for i, host := range link {
			host.Sysctl("ipv6/conf/"+device+"/accept_dad", "0")
			host.Run("ip", "link", "set", device, "up")
			host.Run("ip", "address", "add", fmt.Sprintf("10.0.%d.%d/24", n+1, i+1), "dev", device)
			host.Run("ip", "address", "add", fmt.Sprintf("fd0%d::%d/64", n+1, i+1), "dev", device, "nodad")
		}
	}
	for _, end := range []*lab.Host{gateway, other} {
		end.Run("ip", "mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4")
	}
	return gateway, relay, other
}

func TestASubflowGoesOnToTheOtherRelayAndNothingElseDoes(t *testing.T) {
	gateway, relay, other := corner(t)
	ports := map[string]uint16{"10.0.2.2": 5004, "fd02::2": 5006}
	echo := other.Echo("[::]:4433")
	var ways []Way
	for address, port := range ports {
		ways = append(ways, Way{port, netip.AddrPortFrom(netip.MustParseAddr(address), echo.Port())})
	}
	gateway.Sysctl("mptcp/pm_type", "1") // the subflow is made by hand
	before := relay.Run("sysctl", "-a", "-r", "forwarding")
	var place *Place
	relay.Do(func() (err error) {
		if place, err = Claim(); err != nil {
			return err
		}
		return errors.Join(place.Lead(ways), place.Lead(ways)) // the same once more changes nothing
	})
	if released(t, relay) {
		t.Fatal("what is of a process that lives is taken away")
	}
	handle, err := mptcp.Open(gateway.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	for _, c := range []struct{ to, from, via string }{{"10.0.3.2", "10.0.1.1", "10.0.1.2:5004"}, {"fd03::2", "fd01::1", "[fd01::2]:5006"}} {
		conn := gateway.Dial(netip.AddrPortFrom(netip.MustParseAddr(c.to), echo.Port()), "")
		conn.SetDeadline(time.Now().Add(within))
		if err := lab.Exchange(conn, 10_000); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		only := known(t, handle, 1)
		if _, err := handle.AddSubflow(ctx, only, netip.MustParseAddr(c.from), netip.MustParseAddrPort(c.via)); err != nil {
			t.Fatalf("%v is not led on: %v", c, err)
		}
		if _, err := handle.RemoveSubflow(known(t, handle, 2), only.Subflows[0]); err != nil {
			t.Fatal(err)
		}
		if err := lab.Exchange(conn, 100_000); err != nil {
			t.Fatalf("by the other relay alone: %v", err)
		}
		conn.Close()
	}
	gateway.Run("ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.2")
	other.Run("ip", "route", "add", "10.0.1.0/24", "via", "10.0.2.1")
	for _, to := range []string{"10.0.1.2:5004", fmt.Sprintf("10.0.2.2:%d", echo.Port())} { // who joins nothing; who would be routed
		if err := gateway.Try(func() error {
			_, err := net.DialTimeout("tcp", to, within/20)
			return err
		}); err == nil {
			t.Errorf("%s is reached by who joins no connection", to)
		}
	}
	expectNothing := func() {
		t.Helper()
		if left := relay.Run("nft", "list", "ruleset"); strings.TrimSpace(left) != "" || relay.Run("sysctl", "-a", "-r", "forwarding") != before {
			t.Fatalf("it left %s", left)
		}
	}
	place.name.Close() // as a process that is killed
	if !released(t, relay) || released(t, relay) {
		t.Fatal("what a killed process left is not taken away once")
	}
	expectNothing()
	relay.Do(func() (err error) {
		if place, err = Claim(); err != nil {
			return err
		}
		return errors.Join(place.Lead(ways), place.Close())
	})
	expectNothing()
}

func released(t *testing.T, host *lab.Host) (so bool) {
	t.Helper()
	host.Do(func() (err error) {
		so, err = Release()
		return err
	})
	return so
}

// known is the gateway's one connection, once it has so many subflows that carry.
func known(t *testing.T, handle *mptcp.Handle, subflows int) mptcp.Connection {
	t.Helper()
	for late := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		connections, err := handle.Connections()
		if err == nil && len(connections) == 1 && len(connections[0].Subflows) == subflows {
			return connections[0]
		}
		if time.Now().After(late) {
			t.Fatalf("%v, %v: expected one connection with %d subflows", connections, err, subflows)
		}
	}
}
