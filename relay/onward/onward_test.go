// SPDX-License-Identifier: Apache-2.0

package onward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/mptcp"
)

const (
	within  = time.Minute
	unheard = 500 * time.Millisecond // a dropped SYN has no answer
)

// corner is gateway .1 ─ 10.0.1.0/24 ─ .2 relay .1 ─ 10.0.2.0/24 ─ .2 other, and gateway .1 ─ 10.0.3.0/24 ─ .2 other;
// likewise fd01::/64 and so on. The other relay has no route to the gateway through this relay.
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

func TestOnwardForwardsOnlySubflows(t *testing.T) {
	gateway, relay, other := corner(t)
	ports := map[string]uint16{"10.0.2.2": 5004, "fd02::2": 5006}
	echo := other.Echo("[::]:4433")
	var forwards []PortForward
	for address, port := range ports {
		forwards = append(forwards, PortForward{port, netip.AddrPortFrom(netip.MustParseAddr(address), echo.Port())})
	}
	gateway.Sysctl("mptcp/pm_type", "1") // the test itself opens the subflow
	before := relay.Run("sysctl", "-a", "-r", "forwarding")
	var forwarder *Forwarder
	relay.Do(func() (err error) {
		if forwarder, err = Claim(); err != nil {
			return err
		}
		return errors.Join(forwarder.Replace(forwards), forwarder.Replace(forwards)) // idempotent
	})
	if released(t, relay) {
		t.Fatal("release removed the devices of a running process")
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
	for _, to := range []string{"10.0.1.2:5004", fmt.Sprintf("10.0.2.2:%d", echo.Port())} { // a SYN without MP_JOIN; a destination that would need routing
		if err := gateway.Try(func() error {
			_, err := net.DialTimeout("tcp", to, unheard)
			return err
		}); err == nil {
			t.Errorf("the relay forwards a connection to %s that is no allowed join", to)
		}
	}
	expectNothing := func() {
		t.Helper()
		if left := relay.Run("nft", "list", "ruleset"); strings.TrimSpace(left) != "" || relay.Run("sysctl", "-a", "-r", "forwarding") != before {
			t.Fatalf("it left %s", left)
		}
	}
	forwarder.lock.Close() // as if the process were killed
	if !released(t, relay) || released(t, relay) {
		t.Fatal("what a killed process left is not taken away once")
	}
	expectNothing()
	relay.Do(func() (err error) {
		if forwarder, err = Claim(); err != nil {
			return err
		}
		return errors.Join(forwarder.Replace(forwards), forwarder.Close())
	})
	expectNothing()
}

// Debian's `systemctl reload nftables` flushes all tables.
func TestTendRestoresRulesAfterAFirewallRestart(t *testing.T) {
	gateway, relay, other := corner(t)
	gateway.Run("ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.2")
	other.Run("ip", "route", "add", "10.0.1.0/24", "via", "10.0.2.1")
	before := relay.Run("sysctl", "-a", "-r", "forwarding")
	echo := other.Echo("[::]:4433")
	forwards := []PortForward{{5004, netip.AddrPortFrom(netip.MustParseAddr("10.0.2.2"), echo.Port())}}
	var forwarder *Forwarder
	relay.Do(func() (err error) {
		if forwarder, err = Claim(); err != nil {
			return err
		}
		return forwarder.Replace(forwards)
	})
	table := relay.Run("nft", "list", "ruleset")
	for _, c := range []struct {
		what, flush string
		broken      bool // nft is missing
	}{
		{"the rules of its table", "table inet bicast-onward", false},
		{"all tables, and its rules are there again", "ruleset", false},
		{"all tables, and nobody can make them again", "ruleset", true},
	} {
		t.Run(c.what, func(t *testing.T) {
			relay.Run(append([]string{"nft", "flush"}, strings.Fields(c.flush)...)...)
			path := os.Getenv("PATH")
			if c.broken {
				os.Setenv("PATH", "/nowhere")
			}
			relay.Do(func() error {
				if lost, err := forwarder.Tend(); !lost || (err != nil) != c.broken {
					t.Errorf("lost: %v, %v", lost, err)
				}
				return nil
			})
			os.Setenv("PATH", path)
			if err := gateway.Try(func() error {
				_, err := net.DialTimeout("tcp", fmt.Sprintf("10.0.2.2:%d", echo.Port()), unheard)
				return err
			}); err == nil {
				t.Error("the relay is a router")
			}
		})
	}
	// The agent retries a failed Replace each second. The retry must restore the flushed table.
	relay.Do(func() error { return forwarder.Replace(forwards) })
	if again := relay.Run("nft", "list", "ruleset"); again != table {
		t.Errorf("%s, expected %s", again, table)
	}
	relay.Run("nft", "flush", "ruleset")
	forwarder.lock.Close() // as if the process were killed
	if !released(t, relay) || relay.Run("sysctl", "-a", "-r", "forwarding") != before {
		t.Error("release did not restore the forwarding settings of a killed process")
	}
}

func TestAdmitLimitsSubflowsOfUnknownNetworks(t *testing.T) {
	gateway, relay, other := corner(t)
	gateway.Run("ip", "address", "add", "10.0.9.1/24", "dev", "net1")
	relay.Run("ip", "route", "add", "10.0.9.0/24", "dev", "net1")
	other.Run("nft", "add table inet count; add chain inet count new { type filter hook input priority 0; }; "+
		"add chain inet count came { type filter hook input priority 1; }; "+
		"add rule inet count new tcp sport 30000 tcp option mptcp subtype 1 counter drop; "+
		"add rule inet count came tcp dport 4433 tcp option mptcp subtype 1 counter drop")
	counted := func(chain string) (packets int) {
		words := strings.Fields(other.Run("nft", "list", "chain", "inet", "count", chain))
		fmt.Sscan(words[slices.Index(words, "packets")+1], &packets)
		return packets
	}
	came := func() int { return counted("came") }
	var forwarder *Forwarder
	relay.Do(func() (err error) {
		if forwarder, err = Claim(); err != nil {
			return err
		}
		return forwarder.Replace([]PortForward{{5004, netip.MustParseAddrPort("10.0.2.2:4433")}})
	})
	const joins = 200
	began := time.Now()
	join(gateway, "10.0.1.1", 10_000, joins)
	join(gateway, "10.0.9.1", 30_000, 1)
	eventually(t, "a subflow from another unknown network starts", func() bool { return counted("new") == 1 })
	n := came()
	most := eachBurst + int(eachRate*time.Since(began).Seconds()) + 1
	if n > most {
		t.Errorf("%d of %d subflows from one unknown network started, expected at most %d", n, joins, most)
	}
	relay.Do(func() error { return forwarder.Admit([]netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}) })
	before := came()
	join(gateway, "10.0.1.1", 20_000, joins)
	eventually(t, "all subflows of a gateway begin", func() bool { return came()-before >= joins })
	if n := came() - before; n != joins {
		t.Errorf("%d subflows of a gateway begin, expected %d", n, joins)
	}
	relay.Do(forwarder.Close)
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(within); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// join sends SYNs with MP_JOIN from an address to the relay's port 5004.
func join(from *lab.Host, address string, port uint16, many int) {
	source := netip.MustParseAddr(address).As4()
	from.Do(func() error {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		if err := unix.Bind(raw, &unix.SockaddrInet4{Addr: source}); err != nil {
			return err
		}
		for n := range many {
			segment := make([]byte, 32)
			binary.BigEndian.PutUint16(segment, port+uint16(n))
			binary.BigEndian.PutUint16(segment[2:], 5004)
			segment[12], segment[13] = 8<<4, 0x02 // 32 bytes of header; SYN
			segment[14] = 0xff
			copy(segment[20:], []byte{30, 12, 0x10, 1, 0, 0, 0, byte(n)})
			sum := uint32(0x0a00+0x0102) + unix.IPPROTO_TCP + uint32(len(segment))
			sum += uint32(binary.BigEndian.Uint16(source[:2])) + uint32(binary.BigEndian.Uint16(source[2:]))
			for i := 0; i < len(segment); i += 2 {
				sum += uint32(binary.BigEndian.Uint16(segment[i:]))
			}
			sum = sum>>16 + sum&0xffff
			binary.BigEndian.PutUint16(segment[16:], ^uint16(sum>>16+sum))
			if err := unix.Sendto(raw, segment, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 1, 2}}); err != nil {
				return err
			}
		}
		return nil
	})
}

func released(t *testing.T, host *lab.Host) (so bool) {
	t.Helper()
	host.Do(func() (err error) {
		so, err = Release()
		return err
	})
	return so
}

// known returns the gateway's only connection once it has this many active subflows.
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
