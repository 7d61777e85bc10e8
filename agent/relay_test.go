// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/internal/mtls/mtlstest"
)

func TestTerminalsConnectionsAreRelayed(t *testing.T) {
	r := newRoad(t)
	r.serves("80", echo)
	r.serves("8000", func(conn *net.TCPConn) { // a download
		conn.Write(payload)
	})
	r.serves("8001", func(conn *net.TCPConn) { // an upload whose server reports the received bytes at its end
		got, err := io.ReadAll(conn)
		fmt.Fprintln(conn, bytes.Equal(got, payload), err)
	})
	r.relays("--congestion", "cubic")
	taking := r.takes("block", r.home(), "--except", "45.0.0.1/32")
	for _, address := range []string{server4, server6} {
		r.expectRelayed(address, "80") // servers that send first work too
		_, lines := r.opened(address, "8000")
		if got, err := io.ReadAll(lines); !bytes.Equal(got, payload) || err != nil {
			t.Fatalf("of a download from %s came %d bytes (%v), expected all %d as they are", address, len(got), err, len(payload))
		}
		conn, err := r.dial(address, "8001")
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(payload)
		conn.CloseWrite()
		lines = bufio.NewReader(conn)
		lines.ReadString('\n')
		if said, err := lines.ReadString('\n'); said != fmt.Sprintln(true, nil) {
			t.Fatalf("%s says %q of an upload (%v)", address, said, err)
		}
	}
	if n := r.gateway.Counter("MPCapableSYNACKRX"); n == 0 {
		t.Fatal("gateway and relay do not speak MPTCP")
	}
	if n := r.server.Counter("MPCapableSYNRX"); n != 0 {
		t.Fatalf("%d connections asked the server for MPTCP, expected plain TCP", n)
	}
	if _, err := r.seen(relay4, "80"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatalf("a connection to an excepted network gets %v, expected a refusal by the destination", err)
	}
	r.end(taking, unix.SIGTERM)
	r.expectNothingLeft()
	r.expect(server4, "80", terminal4)
}

func TestResetsAreRelayedBothWays(t *testing.T) {
	r := newRoad(t)
	heard := make(chan error, 1)
	r.serves("80", func(conn *net.TCPConn) {
		_, err := io.Copy(io.Discard, conn)
		heard <- err
	})
	r.serves("8000", func(conn *net.TCPConn) {
		conn.Read(make([]byte, 1))
		conn.SetLinger(0)
	})
	r.relays()
	r.takes("block", r.home())
	r.expectRelayed(server4, "8000")
	conn, _ := r.opened(server4, "80")
	conn.SetLinger(0)
	conn.Close()
	if err := <-heard; !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the server reads %v of a terminal that resets, expected a reset", err)
	}
	conn, lines := r.opened(server4, "8000")
	conn.Write([]byte("x"))
	if _, err := lines.ReadByte(); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the terminal reads %v of a server that resets, expected a reset", err)
	}
	_, lines = r.opened(server4, "80")
	r.end(r.relaying, os.Kill)
	if _, err := lines.ReadByte(); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the terminal reads %v of a relay that is killed, expected a reset", err)
	}
	if err := <-heard; !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the server reads %v of a relay that is killed, expected a reset", err)
	}
}

func TestWithoutARelayTheFallbackDecides(t *testing.T) {
	for _, fallback := range []string{"direct", "block"} {
		t.Run(fallback, func(t *testing.T) {
			r := newRoad(t)
			r.serves("80", nothing)
			r.serves("22", nothing)
			without := func(port string) {
				t.Helper()
				for address, seen := range map[string]string{server4: terminal4, server6: terminal6} {
					if fallback == "direct" {
						r.expect(address, port, seen)
					} else if who, err := r.seen(address, port); !refused(err) {
						t.Fatalf("%s sees %q (%v), expected a reset", address, who, err)
					}
				}
			}
			r.relays()
			taking := r.takes(fallback, r.home())
			r.expectRelayed(server4, "80")
			without("22") // a port that the relay refuses
			r.end(r.relaying, os.Kill)
			without("80")
			r.relays()
			r.expectRelayed(server4, "80")
			conn, lines := r.opened(server4, "80")
			r.end(taking, os.Kill)
			if _, err := lines.ReadByte(); err == nil {
				t.Fatal("a connection outlived the proxy")
			}
			conn.Close()
			without("80")
			taking = r.takes(fallback, r.home()) // replaces what the previous one left
			r.expectRelayed(server6, "80")
			r.end(taking, os.Kill)
			if said, err := r.run(r.gateway, "take", "--undo"); err != nil {
				t.Fatalf("take --undo: %v: %s", err, said)
			}
			r.expectNothingLeft()
			r.expect(server4, "80", terminal4)
		})
	}
}

// nft is slow here, so that it still runs at the second Ctrl-C.
func TestARepeatedCtrlCLeavesNothing(t *testing.T) {
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	slow := t.TempDir()
	if err := os.WriteFile(filepath.Join(slow, "nft"), []byte("#!/bin/sh\nsleep 0.2\nexec "+nft+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", slow+":"+os.Getenv("PATH"))
	r := newRoad(t)
	taking := r.takes("block", r.home())
	for range 4 {
		unix.Kill(-taking.Process.Pid, unix.SIGINT)
		time.Sleep(30 * time.Millisecond)
	}
	if err := taking.Wait(); err != nil {
		t.Errorf("%v, expected it to end well", err)
	}
	r.expectNothingLeft()
}

func TestARelayServesOnlyItsGateways(t *testing.T) {
	r := newRoad(t)
	r.serves("80", nothing)
	r.relays()
	for what, shown := range map[string][]string{
		"nothing":                   {"--cacert", r.home().Authority},
		"another name":              curled(r.authority.Gateway("elsewhere", time.Hour)),
		"what has expired":          curled(r.authority.Gateway("home", -time.Hour)),
		"a relay's":                 curled(r.authority.Relay("home")),
		"another authority's":       append(curled(mtlstest.New(t).Gateway("home", time.Hour)), "--proxy-cacert", r.home().Authority),
		"its own, to somebody else": append(curled(r.home()), "--resolve", "osaka:4433:10.0.1.2", "--proxy", "https://osaka:4433"),
	} {
		if body, err := r.curl(append(shown, "http://"+server4+"/")...); err == nil || strings.Contains(body, relay4) {
			t.Fatalf("a peer with %s gets %q, expected nothing", what, body)
		}
	}
	if body, _ := r.curl(append(curled(r.home()), "http://"+server4+"/")...); strings.TrimSpace(body) != relay4 {
		t.Fatalf("curl as the gateway reads %q, expected %s", body, relay4)
	}
	for to, code := range map[string]string{
		"http://10.0.1.2:80/": "403", "http://45.0.0.1/": "403", "http://45.0.0.2:23/": "403", "http://[::ffff:45.0.0.2]/": "403",
		"http://45.0.0.2:8099/": "502", "http://127.0.0.1/": "403", "http://localhost/": "403",
	} {
		if said, _ := r.curl(append(curled(r.home()), "--write-out", "%{http_connect}", to)...); !strings.HasSuffix(said, code) {
			t.Fatalf("the relay answers %q to a CONNECT to %s, expected %s", said, to, code)
		}
	}
	// The fallback decides if the relay has another name or does not serve the gateway.
	for _, shown := range [][]string{showing(r.authority.Gateway("elsewhere", time.Hour)), append(showing(r.home()), "--name", "osaka")} {
		taking := r.start(r.gateway, append([]string{
			"take", "--relay", door, "--name", "tokyo", "--port", "5000", "--fallback", "direct", "--inside", "left", "--from", "192.168.7.0/24",
		}, shown...)...)
		r.expect(server4, "80", terminal4)
		r.end(taking, unix.SIGTERM)
	}
}

// The gateway's firewall admits no input, and relayed connections do not bypass it.
func TestOnlyTheProxyReachesTerminals(t *testing.T) {
	const global6 = "2a07::2" // an address of the terminal in the Internet
	r := newRoad(t)
	r.serves("80", nothing)
	for host, at := range map[*lab.Host][2]string{r.terminal: {global6, "right"}, r.gateway: {"2a07::1", "left"}} {
		host.Run("ip", "address", "add", at[0]+"/64", "dev", at[1], "nodad")
	}
	r.relay.Run("ip", "-6", "route", "add", "2a07::/64", "via", "fd01::1")
	r.relays()
	r.takes("direct", r.home(), "--from", "2a07::/64")
	r.gateway.Run("nft", "add table inet wall; add chain inet wall forward { type filter hook forward priority 0; }; "+
		`add rule inet wall forward iifname "right" ct state new drop`)
	for _, port := range []string{"22", "80"} {
		r.listens(r.terminal, net.JoinHostPort(global6, port))
		err := r.server.Try(func() error {
			_, err := net.DialTimeout("tcp", net.JoinHostPort(global6, port), unheard)
			return err
		})
		if err == nil {
			t.Errorf("a stranger in the Internet reaches port %s of a terminal", port)
		}
	}
	r.expectRelayed(server6, "80")
}

// A relay behind its own gateway connects to servers through that gateway.
func TestARelaysOwnConnectionIsNotRelayedAgain(t *testing.T) {
	const at, other, another = "192.168.7.2", "192.168.7.3", "192.168.7.4"
	for what, sends := range map[string]string{"known by its address": at, "known by its connection": another} {
		t.Run(what, func(t *testing.T) {
			r := newRoad(t)
			r.serves("80", nothing)
			for _, more := range []string{other, another} {
				r.terminal.Run("ip", "address", "add", more+"/24", "dev", "right")
			}
			r.terminal.Run("ip", "route", "replace", "default", "via", "192.168.7.1", "src", sends)
			r.start(r.terminal, append([]string{"relay", "--listen", at + ":4433", "--gateway", "home"}, showing(r.authority.Relay("tokyo"))...)...)
			r.start(r.gateway, append([]string{
				"take", "--relay", at + ":4433", "--name", "tokyo", "--port", "5000", "--fallback", "direct", "--inside", "left",
				"--from", "192.168.7.0/24",
			}, showing(r.home())...)...)
			r.eventually("the server sees the relay", func() bool {
				who := ""
				r.terminal.Do(func() error {
					dialer := net.Dialer{Timeout: within, LocalAddr: &net.TCPAddr{IP: net.ParseIP(other)}}
					conn, err := dialer.Dial("tcp", net.JoinHostPort(server4, "80"))
					if err == nil {
						defer conn.Close()
						who, _ = bufio.NewReader(conn).ReadString('\n')
					}
					return err
				})
				return strings.TrimSpace(who) == sends
			})
		})
	}
}

func TestMarksOfOtherProgramsStay(t *testing.T) {
	r := newRoad(t)
	r.serves("80", nothing)
	r.relays()
	r.takes("block", r.home())
	r.expectRelayed(server4, "80")
	r.gateway.Run("nft", "add table inet other; add chain inet other coming { type filter hook prerouting priority raw; }; "+
		"add chain inet other here { type filter hook input priority 0; }; "+
		`add rule inet other coming iifname "left" meta mark set 0x100; `+
		`add rule inet other here iifname "left" tcp dport 80 meta mark & 0x100 != 0x100 drop`)
	r.expectRelayed(server4, "80")
	r.expectRelayed(server6, "80")
}

// listens accepts at an address of a host until the test ends.
func (r *road) listens(at *lab.Host, address string) {
	r.t.Helper()
	var listener net.Listener
	at.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	r.t.Cleanup(func() { listener.Close() })
}

// curl runs curl through the relay on the gateway's host.
func (r *road) curl(more ...string) (string, error) {
	words := []string{
		"--silent", "--max-time", "60", "--http0.9", "--proxytunnel", "--resolve", "tokyo:4433:10.0.1.2", "--proxy", "https://tokyo:4433",
	}
	return r.command(r.gateway, "curl", append(words, more...)...)
}

func (r *road) expectNothingLeft() {
	r.t.Helper()
	left := r.gateway.Run("nft", "list", "ruleset") + r.gateway.Run("ip", "-4", "rule", "list", "priority", "11") +
		r.gateway.Run("ip", "-6", "rule", "list", "priority", "11") +
		r.gateway.Run("ip", "-4", "route", "show", "table", "all", "type", "local", "default") +
		r.gateway.Run("ip", "-6", "route", "show", "table", "all", "type", "local", "default")
	if strings.TrimSpace(left) != "" {
		r.t.Fatalf("it left %s", left)
	}
}

func (r *road) opened(address, port string) (*net.TCPConn, *bufio.Reader) {
	r.t.Helper()
	conn, err := r.dial(address, port)
	if err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	if _, err := lines.ReadString('\n'); err != nil {
		r.t.Fatal(err)
	}
	return conn, lines
}

func refused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET)
}
