// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bicast/agent/tunnel/wireguard"
	"bicast/api/agentv1"
	"bicast/internal/claim"
	"bicast/internal/lab"
)

const (
	udpPort = 51820
	testVNI = 42
)

var testKey = bytes.Repeat([]byte{7}, wireguard.KeyBytes)

// keys returns the private keys of a host.
func keys(host byte) PrivateKey {
	return func(number int) (wireguard.Key, error) { return wireguard.Key{1: host, 2: byte(number)}, nil }
}

var nearKeys, farKeys = keys(1), keys(2)

func public(private PrivateKey, vni uint32) []byte {
	key, _ := private(int(vni-1) % MaxNumber)
	key, _ = wireguard.Public(key)
	return key[:]
}

// second returns the order of another tunnel.
func second(one *agentv1.Tunnel, private PrivateKey) *agentv1.Tunnel {
	other := proto.Clone(one).(*agentv1.Tunnel)
	other.Name, other.Port, other.Vni, other.UdpPort = "lte", "tun2", testVNI+1, udpPort+1
	other.PeerKey = public(private, testVNI+1)
	return other
}

// world is two sites with one uplink between them.
//
//	ports ── tun      gateway 10.0.0.2 ── 10.0.0.1 NAT 203.0.113.1 ── 203.0.113.9 far
//	10.99.0.1         wan                 lan         out             net         tun 10.99.0.2
type world struct {
	t                        testing.TB
	gateway, ports, nat, far *lab.Host
	six                      bool
	near, away               *site
}

// site is one end with its executor.
type site struct {
	executor *Executor
	fit      *fits
	order    *agentv1.Tunnels
	end      func() // cleanly
}

type fits struct {
	mutex   sync.Mutex
	largest int
	ports   []string
}

func (f *fits) Fit(ports []string, largest int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.ports, f.largest = ports, largest
}

func (f *fits) Missing() map[string]error { return nil }

func (f *fits) told() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.largest
}

func newWorld(t testing.TB, six bool) *world {
	w := &world{t: t, six: six, gateway: lab.One(t), ports: lab.One(t), nat: lab.One(t), far: lab.One(t)}
	w.gateway.Run("ip", "link", "add", "wan", "type", "veth", "peer", "name", "lan", "netns", w.nat.Path())
	w.nat.Run("ip", "link", "add", "out", "type", "veth", "peer", "name", "net", "netns", w.far.Path())
	w.addresses(w.gateway, "wan", "10.0.0.2/24", "fd00::2/64")
	w.addresses(w.nat, "lan", "10.0.0.1/24", "fd00::1/64")
	w.addresses(w.nat, "out", "203.0.113.1/24", "fdff::1/64")
	w.addresses(w.far, "net", "203.0.113.9/24", "fdff::9/64")
	w.gateway.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	w.gateway.Run("ip", "route", "add", "default", "via", "fd00::1")
	w.nat.Sysctl("ipv4/ip_forward", "1")
	w.nat.Sysctl("ipv6/conf/all/forwarding", "1")
	w.nft(w.nat, `table inet nat {
chain post {
type nat hook postrouting priority srcnat;
oifname "out" masquerade random
}
}`)
	return w
}

func (w *world) addresses(h *lab.Host, device string, addresses ...string) {
	h.Run("ip", "link", "set", device, "up")
	for _, each := range addresses {
		h.Run("ip", "address", "add", each, "dev", device, "nodad")
	}
}

// addUplink gives the gateway a second uplink, wan2, which its default route prefers less.
func (w *world) addUplink() {
	w.gateway.Run("ip", "link", "add", "wan2", "type", "veth", "peer", "name", "lan2", "netns", w.nat.Path())
	w.addresses(w.gateway, "wan2", "10.0.2.2/24")
	w.addresses(w.nat, "lan2", "10.0.2.1/24")
	w.gateway.Run("ip", "route", "add", "default", "via", "10.0.2.1", "metric", "500")
}

func (w *world) nft(h *lab.Host, rules string) {
	w.t.Helper()
	h.Do(func() error {
		command := exec.Command("nft", "-f", "-")
		command.Stdin = strings.NewReader(rules)
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
}

// orders returns the orders for both ends.
func (w *world) orders() (near, away *agentv1.Tunnels) {
	remote := "203.0.113.9"
	if w.six {
		remote = "fdff::9"
	}
	near = &agentv1.Tunnels{FittedPorts: []string{"lan0"}, Tunnels: []*agentv1.Tunnel{{
		Name: "dsl", Port: "tun", Vni: testVNI, UdpPort: udpPort, Device: "wan", Remote: remote, Key: testKey, PeerKey: public(farKeys, testVNI),
	}}}
	away = proto.Clone(near).(*agentv1.Tunnels)
	away.Tunnels[0].Remote, away.Tunnels[0].Device, away.Tunnels[0].PeerKey = "", "", public(nearKeys, testVNI)
	return near, away
}

// begin starts both agents.
func (w *world) begin() *world {
	w.t.Helper()
	near, away := w.orders()
	w.near = w.site(w.gateway, w.ports, near)
	w.away = w.site(w.far, w.far, away)
	w.await("the ends hear each other", w.alive)
	w.await("the far end knows the address that it answers to", func() bool { return w.away.says().GetPeer() != "" })
	w.address()
	return w
}

func (w *world) address() {
	for _, host := range []*lab.Host{w.ports, w.far} { // the hosts send nothing by themselves
		host.Run("ip", "link", "set", "tun", "arp", "on")
	}
	w.ports.Run("ip", "address", "replace", "10.99.0.1/24", "dev", "tun")
	w.far.Run("ip", "address", "replace", "10.99.0.2/24", "dev", "tun")
}

func (w *world) site(outside, inside *lab.Host, order *agentv1.Tunnels) *site {
	w.t.Helper()
	s := &site{fit: &fits{}, order: order}
	private := nearKeys
	if outside == w.far {
		private = farKeys
	}
	s.executor = NewExecutor(outside.Try, inside.Try, private, s.fit, slog.New(slog.NewTextHandler(said{w.t}, nil)))
	s.executor.searchEvery, s.executor.settles = 3*time.Second, 2*time.Second
	var said string
	var err error
	// A child of a killed agent holds its claim until it executes a program.
	w.await("no other agent has the claim", func() bool {
		said, err = s.executor.Order(order)
		return !errors.Is(err, claim.ErrTaken)
	})
	if err != nil {
		w.t.Fatal(said, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.executor.Run(ctx)
	}()
	s.end = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(s.end)
	return s
}

func (s *site) says() *agentv1.TunnelEnd { return s.executor.Report().GetEnds()[0] }

func (w *world) alive() bool {
	return w.near.says().GetReason() == "" && w.away.says().GetReason() == ""
}

const patient = time.Minute // the machine may stall

// await waits for a condition, and returns how long that took.
func (w *world) await(what string, so func() bool) time.Duration {
	w.t.Helper()
	begun := time.Now()
	for !so() {
		if time.Since(begun) > patient {
			reports := "\n"
			for _, each := range []*site{w.near, w.away} {
				if each != nil {
					reports += fmt.Sprintln(each.executor.Report())
				}
			}
			w.t.Fatalf("%s: not so within %v%s", what, patient, reports)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}

// ping reports whether one packet returns within a second.
func (w *world) ping(bytes int) bool { return w.pinged(bytes, time.Second) }

// passes reports whether one packet returns at any time.
func (w *world) passes(bytes int) bool { return w.pinged(bytes, patient) }

func (w *world) pinged(bytes int, wait time.Duration) bool {
	return w.ports.Try(func() error {
		seconds := fmt.Sprint(int(wait.Seconds()))
		return exec.Command("ping", "-c1", "-W", seconds, "-M", "do", "-s", fmt.Sprint(bytes-28), "10.99.0.2").Run()
	}) == nil
}

// farMAC returns the address of the far end's device, which is random; empty: there is none.
func (w *world) farMAC() string {
	for line := range strings.Lines(w.far.Run("ip", "-brief", "link")) {
		if at := strings.Fields(line); strings.HasPrefix(at[0], "tun") {
			return at[2]
		}
	}
	return ""
}

// traffic sends 100 packets per second through the tunnel until the test ends.
func (w *world) traffic() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- w.ports.Try(func() error {
			return exec.CommandContext(ctx, "ping", "-q", "-i", "0.01", "10.99.0.2").Run()
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// losing sends 50 pings a second through the tunnel, and yields which share is not answered, in percent.
func (w *world) losing(lasting time.Duration) <-chan float64 {
	lost := make(chan float64, 1)
	go func() {
		count := strconv.Itoa(int(50 * lasting.Seconds()))
		var said string
		w.ports.Try(func() error {
			out, _ := exec.Command("ping", "-q", "-i", "0.02", "-c", count, "-W", "2", "10.99.0.2").Output()
			said = string(out)
			return nil
		})
		_, after, _ := strings.Cut(said, "received, ")
		share, _, _ := strings.Cut(after, "%")
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil {
			percent = 100
		}
		lost <- percent
	}()
	return lost
}

// forget empties the NAT's table.
func (w *world) forget() {
	w.t.Helper()
	w.nat.Do(func() error {
		conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		const remove = 2 // IPCTNL_MSG_CT_DELETE
		_, err = conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | remove, Flags: netlink.Request | netlink.Acknowledge},
			Data:   make([]byte, 4),
		})
		return err
	})
}

// narrow makes the NAT's host silently drop outer packets above this length.
func (w *world) narrow(bytes int) {
	w.nft(w.nat, fmt.Sprintf(`table inet narrow {
chain forward {
type filter hook forward priority filter;
meta length > %d drop
}
}`, bytes))
}

func (w *world) widen() { w.nft(w.nat, "delete table inet narrow") }
