// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

const patience = time.Minute

// home is a terminal and its gateway, which has the terminal at port `wifi`.
type home struct {
	t          *testing.T
	phone, own *lab.Host
	terminals  *Programs
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t}
	h.phone, h.own = lab.Two(t)
	h.terminals = New(h.own.Try, discard())
	t.Cleanup(func() { h.terminals.Close() })
	return h
}

func (h *home) fit(largest int) {
	h.t.Helper()
	h.terminals.Fit([]string{"wifi"}, largest)
	if missing := h.terminals.Missing(); len(missing) > 0 {
		h.t.Fatal(missing)
	}
}

// hasProgram reports whether a program is on a port.
func (h *home) hasProgram(port string) bool {
	h.t.Helper()
	return strings.Contains(h.own.Run("ip", "-d", "link", "show", port), "xdp")
}

func (h *home) dial(network, to string) net.Conn {
	h.t.Helper()
	var conn net.Conn
	h.phone.Do(func() (err error) {
		dialer := net.Dialer{Timeout: patience}
		dialer.SetMultipathTCP(false)
		conn, err = dialer.Dial(network, to)
		return err
	})
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

func raw(t *testing.T, conn net.Conn, do func(fd int) error) {
	t.Helper()
	access, err := conn.(syscall.Conn).SyscallConn()
	if err == nil {
		err = errors.Join(access.Control(func(fd uintptr) { err = do(int(fd)) }), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func upload(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	if err := lab.Exchange(conn, 1<<20); err != nil {
		t.Fatal(err)
	}
}

var services = map[string]struct{ at, udp string }{
	"IPv4": {lab.Service + ":0", net.JoinHostPort(lab.Service, "9")}, "IPv6": {net.JoinHostPort(lab.Service6, "0"), net.JoinHostPort(lab.Service6, "9")},
}

// The first segment of either side limits what the other sends.
func TestTerminalReceivesFittingSegments(t *testing.T) {
	for name, c := range map[string]struct {
		own, phone string
		segment    int // bytes, without timestamps
	}{
		"IPv4": {"10.1.0.2:0", "10.1.0.1:0", largest - 40}, "IPv6": {"[fd01::2]:0", "[fd01::1]:0", largest - 60},
	} {
		h := newHome(t)
		h.fit(largest)
		t.Run(name+", as it begins", func(t *testing.T) {
			listener := listen(t, h.own, c.own)
			h.dial("tcp", listener.Addr().String())
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sends(t, conn, c.segment)
		})
		t.Run(name+", as it answers", func(t *testing.T) {
			listener := listen(t, h.phone, c.phone)
			var conn net.Conn
			h.own.Do(func() (err error) {
				conn, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
				return err
			})
			defer conn.Close()
			sends(t, conn, c.segment)
		})
	}
}

func listen(t *testing.T, host *lab.Host, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	host.Do(func() (err error) {
		var config net.ListenConfig
		config.SetMultipathTCP(false)
		listener, err = config.Listen(context.Background(), "tcp", address)
		return err
	})
	t.Cleanup(func() { listener.Close() })
	return listener
}

func sends(t *testing.T, conn net.Conn, segment int) {
	t.Helper()
	const timestamps = 12
	raw(t, conn, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && int(info.Snd_mss)+timestamps != segment {
			t.Errorf("segments of %d bytes and %d, expected %d together", info.Snd_mss, timestamps, segment)
		}
		return err
	})
}

func TestExistingConnectionLearnsTheMTU(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			conn := h.dial("tcp", h.own.TCPEcho(service.at).String())
			upload(t, conn)
			h.fit(largest)
			upload(t, conn)
			raw(t, conn, func(fd int) error {
				info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
				if err == nil && info.Pmtu != largest {
					t.Errorf("the path MTU is %d bytes, expected %d", info.Pmtu, largest)
				}
				return err
			})
		})
	}
}

func TestTerminalAcceptsTheAnswerToADatagram(t *testing.T) {
	for name, c := range map[string]struct{ level, discover, do, mtu int }{
		"IPv4": {unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_MTU},
		"IPv6": {unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_MTU},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.fit(largest)
			conn := h.dial("udp", services[name].udp)
			raw(t, conn, func(fd int) error { return unix.SetsockoptInt(fd, c.level, c.discover, c.do) })
			for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				conn.Write(make([]byte, 1400)) // fails once the MTU is known
				var mtu int
				raw(t, conn, func(fd int) (err error) {
					mtu, err = unix.GetsockoptInt(fd, c.level, c.mtu)
					return err
				})
				if mtu == largest {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the path MTU is %d bytes, expected %d", mtu, largest)
				}
			}
		})
	}
}

func TestOrdersShareOneProgram(t *testing.T) {
	h := newHome(t)
	h.terminals.Number([]string{"wifi"})
	h.terminals.Fit([]string{"wifi", "lte"}, largest)
	if !h.hasProgram("wifi") || !h.hasProgram("lte") || len(h.terminals.Missing()) > 0 {
		t.Fatalf("expected a program at both ports, %v", h.terminals.Missing())
	}
	h.terminals.Fit(nil, 0)
	if !h.hasProgram("wifi") || h.hasProgram("lte") {
		t.Fatal("expected a program where packets are numbered, and no other")
	}
	h.terminals.Number(nil)
	if h.hasProgram("wifi") || h.terminals.program != nil {
		t.Fatal("expected no program")
	}
	h.fit(largest)
	h.terminals.Fit([]string{"wifi"}, 0)
	if h.hasProgram("wifi") {
		t.Fatal("expected no program where there is no limit")
	}
}

func TestFitUpdatesTheLimit(t *testing.T) {
	h := newHome(t)
	for _, limit := range []int{largest, largest - 100, largest + 100} {
		h.fit(limit)
		for device := range h.terminals.program.settings {
			var stands port
			if err := h.terminals.program.objects.Ports.Lookup(device, &stands); err != nil || stands.LargestBytes != uint32(limit) {
				t.Fatalf("the program at device %d has %d bytes (%v), expected %d", device, stands.LargestBytes, err, limit)
			}
		}
	}
}

func TestRunDetachesAtItsEnd(t *testing.T) {
	h := newHome(t)
	h.fit(largest)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.terminals.Run(ctx)
	if h.hasProgram("wifi") {
		t.Fatal("expected no program")
	}
}

func TestReturningPortIsFitAgain(t *testing.T) {
	h := newHome(t)
	h.fit(largest)
	h.own.Run("ip", "link", "del", "wifi")
	h.terminals.Tick()
	missing := h.terminals.Missing()
	if err := missing["wifi"]; err == nil || !strings.Contains(err.Error(), "no network device wifi") {
		t.Fatalf("the missing ports are %v, expected wifi", missing)
	}
	h.own.Run("ip", "link", "add", "wifi", "type", "veth", "peer", "name", "wifi", "netns", h.phone.Path())
	h.terminals.Tick()
	if !h.hasProgram("wifi") || len(h.terminals.Missing()) > 0 {
		t.Fatalf("expected a program, %v", h.terminals.Missing())
	}
	if devices := slices.Collect(maps.Keys(h.terminals.program.settings)); len(devices) != 1 {
		t.Fatalf("devices %v, expected the new one alone", devices)
	}
}

func TestForeignProgramStays(t *testing.T) {
	h := newHome(t)
	h.fit(largest)
	other := New(h.own.Try, discard())
	defer other.Close()
	other.Number([]string{"wifi"})
	if err := other.Missing()["wifi"]; err == nil || !strings.Contains(err.Error(), "has an XDP program already") {
		t.Fatalf("the reason is %v, expected the program of another owner", err)
	}
}
