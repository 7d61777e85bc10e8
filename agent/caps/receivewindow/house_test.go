// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

const (
	service  = "10.9.0.2"
	service6 = "fd09::2"
	phone    = "10.1.0.1"
	phone6   = "fd01::1"
	phoneLTE = "10.2.0.1"

	patience = time.Minute
)

// house has a phone at two ports of its gateway, and a server behind the gateway.
//
//	phone  wifi 10.1.0.1 ── 10.1.0.2 wifi  gateway  wan 10.9.0.1 ── 10.9.0.2 wan  server
//	       lte  10.2.0.1 ── 10.2.0.2 lte
type house struct {
	t                      testing.TB
	phone, gateway, server *lab.Host
	executor               *Executor
	lasts                  *agentv1.Caps // order that await renews
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, gateway: lab.One(t)}
	h.phone, h.server = lab.One(t), lab.One(t)
	for n, name := range map[string]string{"1": "wifi", "2": "lte"} {
		h.wire(name, n)
		h.phone.Run("ip", "rule", "add", "from", "10."+n+".0.1", "table", "10"+n)
	}
	h.gateway.Run("ip", "link", "add", "wan", "type", "veth", "peer", "name", "wan", "netns", h.server.Path())
	h.address(h.gateway, "wan", "10.9.0.1/24", "fd09::1/64")
	h.address(h.server, "wan", service+"/24", service6+"/64")
	h.server.Run("ip", "route", "add", "default", "via", "10.9.0.1")
	h.server.Run("ip", "-6", "route", "add", "default", "via", "fd09::1")
	h.gateway.Sysctl("ipv4/ip_forward", "1")
	h.gateway.Sysctl("ipv6/conf/all/forwarding", "1")
	h.executor = h.another()
	return h
}

func (h *house) wire(name, n string) {
	h.t.Helper()
	h.gateway.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", h.phone.Path())
	h.lead(name, n)
}

// air puts a bridge between the phone and its gateway: its port `above` leads to the gateway, `below` to the phone.
func (h *house) air() *lab.Host {
	h.t.Helper()
	h.phone.Run("ip", "link", "del", "wifi")
	air := lab.One(h.t)
	air.Run("ip", "link", "add", "air", "type", "bridge")
	air.Run("ip", "link", "set", "air", "up")
	for port, host := range map[string]*lab.Host{"above": h.gateway, "below": h.phone} {
		air.Run("ip", "link", "add", port, "type", "veth", "peer", "name", "wifi", "netns", host.Path())
		air.Run("ip", "link", "set", "dev", port, "master", "air", "up")
	}
	h.lead("wifi", "1")
	return air
}

func (h *house) lead(name, n string) {
	h.t.Helper()
	h.address(h.gateway, name, "10."+n+".0.2/24", "fd0"+n+"::2/64")
	h.address(h.phone, name, "10."+n+".0.1/24", "fd0"+n+"::1/64")
	h.phone.Run("ip", "route", "add", "default", "via", "10."+n+".0.2", "dev", name, "table", "10"+n)
	h.phone.Run("ip", "route", "add", "default", "via", "10."+n+".0.2", "dev", name, "metric", "10"+n)
	h.phone.Run("ip", "-6", "route", "add", "default", "via", "fd0"+n+"::2", "dev", name, "metric", "10"+n)
}

func (h *house) address(host *lab.Host, device, four, six string) {
	h.t.Helper()
	host.Run("ip", "link", "set", device, "up")
	host.Run("ip", "address", "add", four, "dev", device)
	host.Run("ip", "address", "add", six, "dev", device, "nodad")
}

// another returns a second executor on the same gateway.
func (h *house) another() *Executor {
	executor := NewExecutor(h.gateway.Try, discard())
	h.t.Cleanup(func() {
		executor.mutex.Lock()
		defer executor.mutex.Unlock()
		executor.unload()
	})
	return executor
}

// capped returns an order for all connections of the phone to the server; with 0 segments it only measures.
func capped(segments uint32, lease time.Duration) *agentv1.Caps {
	order := &agentv1.Caps{LeaseMs: uint32(lease.Milliseconds()), Ports: []string{"wifi", "lte"}}
	if segments == 0 {
		return order
	}
	for _, each := range [][2]string{{phone, service}, {phoneLTE, service}, {phone6, service6}} {
		order.Caps = append(order.Caps, &agentv1.Cap{TerminalAddress: each[0], OtherAddress: each[1], MostSegments: segments})
	}
	return order
}

func (h *house) order(order *agentv1.Caps) {
	h.t.Helper()
	if _, err := h.executor.Order(order); err != nil {
		h.t.Fatal(err)
	}
	if h.lasts = nil; time.Duration(order.GetLeaseMs())*time.Millisecond == lasting {
		h.lasts = order
	}
}

// narrow limits a device's rate with a long queue.
func narrow(host *lab.Host, device, rate string) {
	host.Run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "16kb", "limit", "3mb")
}

// sink discards everything it receives.
func (h *house) sink(address string, mptcp bool) netip.AddrPort {
	h.t.Helper()
	return h.server.Serve(net.JoinHostPort(address, "0"), mptcp, func(conn *net.TCPConn) { io.Copy(io.Discard, conn) })
}

// upload sends as fast as possible until the test ends.
func (h *house) upload(to netip.AddrPort, mptcp bool) net.Conn {
	h.t.Helper()
	conn := h.dial(to, mptcp)
	go func() {
		room := make([]byte, 1<<16)
		for {
			if _, err := conn.Write(room); err != nil {
				return // closed: the test is over
			}
		}
	}()
	return conn
}

func (h *house) dial(to netip.AddrPort, mptcp bool) net.Conn {
	h.t.Helper()
	var conn net.Conn
	h.phone.Do(func() (err error) {
		dialer := net.Dialer{Timeout: patience}
		dialer.SetMultipathTCP(mptcp)
		dialer.Control = cubic
		conn, err = dialer.Dial("tcp", to.String())
		return err
	})
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// cubic fills the queue.
func cubic(_, _ string, raw syscall.RawConn) error {
	var failure error
	err := raw.Control(func(fd uintptr) {
		failure = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	})
	return errors.Join(err, failure)
}

// info returns TCP_INFO of a connection.
func (h *house) info(conn net.Conn) (info *unix.TCPInfo) {
	h.t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err == nil {
		var failure error
		err = raw.Control(func(fd uintptr) { info, failure = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
		err = errors.Join(err, failure)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return info
}

// waiting returns the bytes in a device's queue.
func (h *house) waiting(host *lab.Host, device string) int {
	h.t.Helper()
	var queues []struct{ Backlog int }
	if err := json.Unmarshal([]byte(host.Run("tc", "-s", "-j", "qdisc", "show", "dev", device, "root")), &queues); err != nil || len(queues) == 0 {
		h.t.Fatalf("no queue at %s: %v", device, err)
	}
	return queues[0].Backlog
}

// await waits for a condition and renews the lasting order like a controller.
func (h *house) await(what string, is func() bool) {
	h.t.Helper()
	renewed := time.Now()
	for deadline := renewed.Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within %v: %s", patience, what)
		}
		if h.lasts != nil && time.Since(renewed) > lasting/10 {
			h.order(h.lasts)
			renewed = time.Now()
		}
	}
}
