// SPDX-License-Identifier: Apache-2.0

// Package capstest provides an uploading terminal for tests of the executors that cap windows.
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

// Addresses, and the default lease in ms.
const (
	Near    = "10.1.0.1" // over wifi
	NearLTE = "10.2.0.1"
	Far     = "10.3.0.2"
	Other   = "10.3.0.3"
	Near6   = "fd01::1"
	Far6    = "fd03::1"
	Lease   = 10_000
)

// Opener creates an executor without caps.
type Opener func(within func(func() error) error, log *slog.Logger) *caps.Executor

// World is a terminal that uploads through a gateway whose queue holds hundreds of segments. TCP would not fill a
// queue of the terminal's own that far.
type World struct {
	T                  *testing.T
	opener             Opener
	Host, Gateway, Far *lab.Host
}

// New returns a new world.
func New(t *testing.T, opener Opener) *World {
	w := &World{t, opener, lab.One(t), lab.One(t), lab.One(t)}
	for _, devices := range []string{"all", "default"} {
		w.Gateway.Sysctl("ipv6/conf/"+devices+"/accept_dad", "0") // during duplicate address detection, the device sends no neighbour solicitations
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
	w.Host.Sysctl("ipv4/tcp_congestion_control", "reno") // reno's window grows until the queue is full
	w.Room(1_500_000)
	return w
}

// Room limits the gateway's queue.
func (w *World) Room(bytes int) {
	w.T.Helper()
	w.Gateway.Run("tc", "qdisc", "replace", "dev", "wire", "root", "tbf", "rate", "40mbit", "burst", "10000", "limit", strconv.Itoa(bytes))
}

// Executor returns an executor on the terminal.
func (w *World) Executor() *caps.Executor {
	return w.opener(w.Host.Try, slog.New(slog.NewTextHandler(testLog{w.T}, nil)))
}

// Start runs an executor until the test ends or end is called.
func (w *World) Start(executor *caps.Executor) (end func()) {
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

// Order requires the executor to accept the caps.
func (w *World) Order(executor *caps.Executor, ordered ...*agentv1.Cap) {
	w.T.Helper()
	if _, err := executor.Order(&agentv1.Caps{Caps: ordered, LeaseMs: Lease}); err != nil {
		w.T.Fatal(err)
	}
}

// Upload opens a connection that always has data to send.
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

// AcceptedUpload is an upload on a connection that the far host opened, in a dual-stack socket.
func (w *World) AcceptedUpload() *Upload {
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

// Upload is the sending end of a connection.
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

// Option calls a function with the socket.
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

// Info returns the socket's TCP_INFO.
func (u *Upload) Info() (info *unix.TCPInfo) {
	u.T.Helper()
	u.Option(func(socket int) (err error) {
		info, err = unix.GetsockoptTCPInfo(socket, unix.SOL_TCP, unix.TCP_INFO)
		return err
	})
	return info
}

// Control returns the name of the congestion control.
func (u *Upload) Control() (name string) {
	u.T.Helper()
	u.Option(func(socket int) (err error) {
		name, err = unix.GetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION)
		return err
	})
	name, _, _ = strings.Cut(name, "\x00")
	return name
}

// AwaitWindow waits until the window is within limits.
func (u *Upload) AwaitWindow(least, most uint32) {
	u.T.Helper()
	Await(u.T, func() bool { return Between(u.Info().Snd_cwnd, least, most) }, func() any { return u.Info().Snd_cwnd }, least, most)
}

// StaysWithin waits until the window is within limits and expects it to stay there for 150 ms.
func (u *Upload) StaysWithin(least, most uint32) {
	u.T.Helper()
	u.AwaitWindow(least, most)
	for range 15 {
		if now := u.windowOutside(least, most); now != nil {
			u.T.Fatalf("a window of %d segments, expected %d to %d: %+v", now.Snd_cwnd, least, most, now)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// windowOutside returns nil if the window is within limits. The kernel reads the window before it locks the socket,
// so a value during the work on an ACK may be transient. During loss recovery the kernel sets the window while the
// data in flight decreases.
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

// Congestion states in TCP_INFO (TCP_CA_CWR, TCP_CA_Recovery).
const (
	reducing   = 2
	recovering = 3
)

// Between reports whether a value is within inclusive limits.
func Between(value, least, most uint32) bool { return least <= value && value <= most }

// Await waits up to a minute for a condition.
func Await(t *testing.T, done func() bool, now func() any, expected ...any) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v, expected %v", now(), expected)
		}
	}
}

// CapOf returns a cap for all connections from one address to another.
func CapOf(from, to string, least, most uint32) *agentv1.Cap {
	return &agentv1.Cap{TerminalAddress: from, OtherAddress: to, LeastSegments: least, MostSegments: most}
}

// testLog writes to the test's log.
type testLog struct{ t *testing.T }

func (s testLog) Write(b []byte) (int, error) {
	s.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
