// SPDX-License-Identifier: Apache-2.0

// Package capstest is a terminal that uploads, for tests of the executors that cap its windows.
package capstest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/caps"
	"bicast/api/agentv1"
	"bicast/internal/lab"
)

// Addresses, and how long an order holds that says nothing else.
const (
	Near    = "10.1.0.1" // by wifi
	NearLTE = "10.2.0.1"
	Far     = "10.3.0.2"
	Other   = "10.3.0.3"
	Near6   = "fd01::1"
	Far6    = "fd03::1"
	Lease   = 10_000
)

// Opener makes an executor that has nothing to do yet.
type Opener func(within func(func() error) error, log *slog.Logger) *caps.Executor

// World is a terminal that uploads through a gateway, where there is room for hundreds of segments: in a queue of the
// terminal's own, TCP would not put so many.
//
//	host  wifi 10.1.0.1 ── 10.1.0.254  gateway  10.3.0.254 ── 10.3.0.2, 10.3.0.3  far
//	      lte  10.2.0.1 ── 10.2.0.254              40 Mbit/s
type World struct {
	T                  *testing.T
	opener             Opener
	Host, Gateway, Far *lab.Host
}

// New is a world of its own.
func New(t *testing.T, opener Opener) *World {
	w := &World{t, opener, lab.One(t), lab.One(t), lab.One(t)}
	for _, devices := range []string{"all", "default"} {
		w.Gateway.Sysctl("ipv6/conf/"+devices+"/accept_dad", "0") // until a device's own address has been tried, it asks for no neighbour
	}
	cable := func(host *lab.Host, name, address, gateway string) {
		host.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", w.Gateway.Path())
		host.Run("ip", "address", "add", address+"/24", "dev", name)
		host.Run("ip", "link", "set", name, "up")
		w.Gateway.Run("ip", "address", "add", gateway+"/24", "dev", name)
		w.Gateway.Run("ip", "link", "set", name, "up")
	}
	cable(w.Host, "wifi", Near, "10.1.0.254")
	cable(w.Host, "lte", NearLTE, "10.2.0.254")
	cable(w.Far, "wire", Far, "10.3.0.254")
	for host, name := range map[*lab.Host]string{w.Host: "wifi", w.Far: "wire"} {
		prefix := map[string]string{"wifi": "fd01::", "wire": "fd03::"}[name]
		host.Run("ip", "address", "add", prefix+"1/64", "dev", name, "nodad")
		w.Gateway.Run("ip", "address", "add", prefix+"2/64", "dev", name, "nodad")
		host.Run("ip", "-6", "route", "add", "default", "via", prefix+"2")
	}
	w.Gateway.Sysctl("ipv6/conf/all/forwarding", "1")
	w.Far.Run("ip", "address", "add", Other+"/24", "dev", "wire")
	w.Far.Run("ip", "route", "add", "default", "via", "10.3.0.254")
	w.Host.Run("ip", "route", "add", "default", "via", "10.1.0.254")
	w.Host.Run("ip", "route", "add", "default", "via", "10.2.0.254", "table", "2")
	w.Host.Run("ip", "rule", "add", "from", NearLTE, "table", "2")
	w.Gateway.Sysctl("ipv4/ip_forward", "1")
	w.Host.Sysctl("ipv4/tcp_congestion_control", "reno") // the window of which grows until there is no room
	w.Room(1_500_000)
	return w
}

// Room is what waits at the gateway at most.
func (w *World) Room(bytes int) {
	w.T.Helper()
	w.Gateway.Run("tc", "qdisc", "replace", "dev", "wire", "root", "tbf", "rate", "40mbit", "burst", "10000", "limit", strconv.Itoa(bytes))
}

// Executor is one of the terminal's.
func (w *World) Executor() *caps.Executor {
	return w.opener(w.Host.Try, slog.New(slog.NewTextHandler(said{w.T}, nil)))
}

// Runs has an executor do its work until the test ends, or it is told to end.
func (w *World) Runs(executor *caps.Executor) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		executor.Run(ctx)
		close(ended)
	}()
	end = func() {
		cancel()
		<-ended
	}
	w.T.Cleanup(end)
	return end
}

// Order must be obeyed.
func (w *World) Order(executor *caps.Executor, ordered ...*agentv1.Cap) {
	w.T.Helper()
	if _, err := executor.Order(&agentv1.Caps{Caps: ordered, LeaseMs: Lease}); err != nil {
		w.T.Fatal(err)
	}
}

// Upload is a connection that never has enough sent.
func (w *World) Upload(to string, multipath bool) *Upload {
	w.T.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(multipath)
	var listener net.Listener
	w.Far.Do(func() (err error) {
		listener, err = config.Listen(context.Background(), "tcp", net.JoinHostPort(to, "0"))
		return err
	})
	w.T.Cleanup(func() { listener.Close() })
	go func() {
		if taken, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, taken)
			taken.Close()
		}
	}()
	var dialer net.Dialer
	dialer.SetMultipathTCP(multipath)
	u := &Upload{T: w.T}
	w.Host.Do(func() (err error) {
		u.Conn, err = dialer.Dial("tcp", listener.Addr().String())
		return err
	})
	w.T.Cleanup(func() { u.Conn.Close() })
	u.port = netip.MustParseAddrPort(listener.Addr().String()).Port()
	go u.send()
	return u
}

// Asked is an upload of a terminal that was connected to, in a socket that could be of either version.
func (w *World) Asked() *Upload {
	w.T.Helper()
	var listener net.Listener
	w.Host.Do(func() (err error) {
		listener, err = net.Listen("tcp", "[::]:0")
		return err
	})
	w.T.Cleanup(func() { listener.Close() })
	w.Far.Do(func() error {
		asking, err := net.Dial("tcp4", net.JoinHostPort(Near, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)))
		if err == nil {
			go io.Copy(io.Discard, asking)
			w.T.Cleanup(func() { asking.Close() })
		}
		return err
	})
	taken, err := listener.Accept()
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { taken.Close() })
	u := &Upload{T: w.T, Conn: taken}
	go u.send()
	return u
}

// Upload is one end of a connection.
type Upload struct {
	T    *testing.T
	Conn net.Conn
	port uint16 // of the far end
}

func (u *Upload) send() {
	for block := make([]byte, 1<<16); ; {
		if _, err := u.Conn.Write(block); err != nil {
			return
		}
	}
}

// Option asks the kernel of its socket.
func (u *Upload) Option(ask func(socket int) error) {
	u.T.Helper()
	raw, err := u.Conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		var failed error
		if err = raw.Control(func(fd uintptr) { failed = ask(int(fd)) }); err == nil {
			err = failed
		}
	}
	if err != nil {
		u.T.Fatal(err)
	}
}

// Info is what the kernel tells of it.
func (u *Upload) Info() (info *unix.TCPInfo) {
	u.T.Helper()
	u.Option(func(socket int) (err error) {
		info, err = unix.GetsockoptTCPInfo(socket, unix.SOL_TCP, unix.TCP_INFO)
		return err
	})
	return info
}

// Control is the name of its congestion control.
func (u *Upload) Control() (name string) {
	u.T.Helper()
	u.Option(func(socket int) (err error) {
		name, err = unix.GetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION)
		return err
	})
	name, _, _ = strings.Cut(name, "\x00")
	return name
}

// AwaitWindow waits until its window is where it should be.
func (u *Upload) AwaitWindow(least, most uint32) {
	u.T.Helper()
	Await(u.T, func() bool { return Between(u.Info().Snd_cwnd, least, most) }, func() any { return u.Info().Snd_cwnd }, least, most)
}

// Stays sees to it that a window is where it should be for a while, too.
func (u *Upload) Stays(least, most uint32) {
	u.T.Helper()
	u.AwaitWindow(least, most)
	for range 15 {
		if now := u.windowOutside(least, most); now != nil {
			u.T.Fatalf("a window of %d segments, expected %d to %d: %+v", now.Snd_cwnd, least, most, now)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// windowOutside is nil where the window is where it should be. The kernel reads a window before it takes the socket's lock:
// what was found amid the work on an acknowledgement is not so the next time. And while lost segments are repaired the window
// is the kernel's own, which lets what is on its way become less by and by.
func (u *Upload) windowOutside(least, most uint32) (now *unix.TCPInfo) {
	u.T.Helper()
	for range 2 {
		Await(u.T, func() bool {
			now = u.Info()
			return now.Ca_state != reducing && now.Ca_state != recovering
		}, func() any { return now }, "lost segments to be repaired")
		if Between(now.Snd_cwnd, least, most) {
			return nil
		}
	}
	return now
}

// States of a sender, as TCP_INFO has them.
const (
	reducing   = 2
	recovering = 3
)

// Between has both ends in it.
func Between(value, least, most uint32) bool { return least <= value && value <= most }

// Await fails the test when it takes too long.
func Await(t *testing.T, done func() bool, now func() any, expected ...any) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v, expected %v", now(), expected)
		}
	}
}

// CapOf is of each connection from one address to the other.
func CapOf(from, to string, least, most uint32) *agentv1.Cap {
	return &agentv1.Cap{TerminalAddress: from, OtherAddress: to, LeastSegments: least, MostSegments: most}
}

// said is a log in the test's own.
type said struct{ t *testing.T }

func (s said) Write(b []byte) (int, error) {
	s.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
