// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
)

// road is the path of a terminal's connection:
//
//	terminal 192.168.7.2 ─ 192.168.7.1 gateway 10.0.1.1 ─ 10.0.1.2 relay 45.0.0.1 ─ 45.0.0.2 server
//	              fd07::2 ─ fd07::1             fd01::1 ─ fd01::2        2a0f::1 ─ 2a0f::2
//
// The relay's host also routes: connections that are not intercepted reach the server with the terminal's address.
type road struct {
	t                                *testing.T
	terminal, gateway, relay, server *lab.Host
	authority                        *mtlstest.Authority
	relaying                         *exec.Cmd
}

const (
	server4, server6     = "45.0.0.2", "2a0f::2"
	terminal4, terminal6 = "192.168.7.2", "fd07::2"
	relay4, relay6       = "45.0.0.1", "2a0f::1" // as servers see it
	door                 = "10.0.1.2:4433"
	within               = time.Minute            // the machine may stall
	unheard              = 500 * time.Millisecond // a firewall that drops a SYN answers nothing
)

func newRoad(t *testing.T) *road {
	r := &road{
		t: t, terminal: lab.One(t), gateway: lab.One(t), relay: lab.One(t), server: lab.One(t), authority: mtlstest.New(t),
	}
	for _, host := range []*lab.Host{r.terminal, r.gateway, r.relay, r.server} {
		host.Sysctl("ipv6/conf/default/accept_dad", "0") // or routers ask for neighbours after two seconds
	}
	r.link(r.terminal, r.gateway, "192.168.7", "fd07")
	r.link(r.gateway, r.relay, "10.0.1", "fd01")
	r.link(r.relay, r.server, "45.0.0", "2a0f")
	for host, routes := range map[*lab.Host][]string{
		r.terminal: {"default via 192.168.7.1", "default via fd07::1"},
		r.gateway:  {"default via 10.0.1.2", "default via fd01::2"},
		r.relay:    {"192.168.7.0/24 via 10.0.1.1", "fd07::/64 via fd01::1"},
		r.server:   {"default via 45.0.0.1", "default via 2a0f::1"},
	} {
		for _, route := range routes {
			family := "-4"
			if strings.Contains(route, ":") {
				family = "-6"
			}
			host.Run(append([]string{"ip", family, "route", "add"}, strings.Fields(route)...)...)
		}
	}
	for _, router := range []*lab.Host{r.gateway, r.relay} {
		router.Sysctl("ipv4/ip_forward", "1")
		router.Sysctl("ipv6/conf/all/forwarding", "1")
	}
	return r
}

// link connects two hosts. The first gets .1 or .2 of the networks, as in the picture.
func (r *road) link(left, right *lab.Host, four, six string) {
	left.Run("ip", "link", "add", "right", "type", "veth", "peer", "name", "left", "netns", right.Path())
	first, second := "1", "2"
	if left == r.terminal {
		first, second = second, first
	}
	for host, at := range map[*lab.Host][2]string{left: {"right", first}, right: {"left", second}} {
		host.Run("ip", "link", "set", at[0], "up")
		host.Run("ip", "address", "add", four+"."+at[1]+"/24", "dev", at[0])
		host.Run("ip", "address", "add", six+"::"+at[1]+"/64", "dev", at[0], "nodad")
	}
}

// start runs the agent on a host until the test ends. It waits for the first line of output.
func (r *road) start(at *lab.Host, words ...string) *exec.Cmd {
	r.t.Helper()
	agent := exec.Command("/proc/self/exe", words...)
	agent.Env = append(os.Environ(), asAgent+"=1")
	agent.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // a test may signal the group, as a terminal does
	said := &strings.Builder{}
	agent.Stderr = said
	out, err := agent.StdoutPipe()
	if err == nil {
		err = at.Try(agent.Start)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		r.end(agent, os.Kill)
		if r.t.Failed() {
			r.t.Logf("%s said:\n%s", words[0], said)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		agent.Wait()
		r.t.Fatalf("%q began with %q and %v: %s", words, line, err, said)
	}
	return agent
}

func (r *road) end(agent *exec.Cmd, by os.Signal) {
	if agent.ProcessState == nil {
		agent.Process.Signal(by)
		agent.Wait()
	}
}

func showing(files mtls.Files) []string {
	return []string{"--certificate", files.Certificate, "--key", files.Key, "--ca", files.Authority}
}

func (r *road) relays(more ...string) {
	r.t.Helper()
	words := append([]string{"relay", "--listen", door, "--gateway", "home", "--allow-ports", "80,8000-8099"},
		showing(r.authority.Relay("tokyo"))...)
	r.relaying = r.start(r.relay, append(words, more...)...)
}

func (r *road) takes(fallback string, shown mtls.Files, more ...string) *exec.Cmd {
	r.t.Helper()
	words := append([]string{
		"take", "--relay", door, "--name", "tokyo", "--port", "5000", "--fallback", fallback,
		"--inside", "left", "--from", "192.168.7.0/24", "--from", "fd07::/64",
	}, showing(shown)...)
	return r.start(r.gateway, append(words, more...)...)
}

func (r *road) home() mtls.Files { return r.authority.Gateway("home", time.Hour) }

// serves starts a server that writes its peer's address in a line and then runs then on the connection.
func (r *road) serves(port string, then func(conn *net.TCPConn)) {
	r.t.Helper()
	for _, address := range []string{server4, server6} {
		r.server.Serve(net.JoinHostPort(address, port), false, func(conn *net.TCPConn) {
			fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
			then(conn)
		})
	}
}

func (r *road) dial(address, port string) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: within}
	dialer.SetMultipathTCP(false)
	var conn net.Conn
	if err := r.terminal.Try(func() (err error) {
		conn, err = dialer.DialContext(context.Background(), "tcp", net.JoinHostPort(address, port))
		return err
	}); err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(within))
	return conn.(*net.TCPConn), nil
}

// seen returns the address that a server sees as its peer, or the error of the terminal's connection.
func (r *road) seen(address, port string) (string, error) {
	conn, err := r.dial(address, port)
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (r *road) expect(address, port, seen string) {
	r.t.Helper()
	if who, err := r.seen(address, port); err != nil || who != seen {
		r.t.Fatalf("the server at %s sees %q (%v), expected %s", net.JoinHostPort(address, port), who, err, seen)
	}
}

// expectRelayed retries, because the first connection to the relay may take longer than a terminal waits.
func (r *road) expectRelayed(address, port string) {
	r.t.Helper()
	r.eventually("the server at "+address+" sees the relay", func() bool {
		who, _ := r.seen(address, port)
		return who == relay4 || who == relay6
	})
}

func (r *road) eventually(what string, so func() bool) {
	r.t.Helper()
	for late := time.Now().Add(within); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func nothing(*net.TCPConn) {}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

// run runs a verb that ends by itself.
func (r *road) run(at *lab.Host, words ...string) (string, error) {
	return r.command(at, "/proc/self/exe", words...)
}

func (r *road) command(at *lab.Host, name string, words ...string) (string, error) {
	command := exec.Command(name, words...)
	command.Env = append(os.Environ(), asAgent+"=1")
	var out []byte
	err := at.Try(func() (err error) {
		out, err = command.CombinedOutput()
		return err
	})
	return string(out), err
}

// curled returns curl's options to show a certificate to a proxy.
func curled(files mtls.Files) []string {
	return []string{"--proxy-cert", files.Certificate, "--proxy-key", files.Key, "--proxy-cacert", files.Authority}
}

// payload returns bytes without repetitions nearby.
var payload = func() []byte {
	b := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()
