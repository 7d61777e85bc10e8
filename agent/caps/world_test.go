package caps

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

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

const (
	near    = "10.1.0.1" // by wifi
	nearLTE = "10.2.0.1"
	far     = "10.3.0.2"
	other   = "10.3.0.3"
	near6   = "fd01::1"
	far6    = "fd03::1"
	lease   = 10_000
)

// world is a terminal that uploads through a gateway, where there is room for hundreds of segments: in a queue of the
// terminal's own, TCP would not put so many.
//
//	host  wifi 10.1.0.1 ── 10.1.0.254  gateway  10.3.0.254 ── 10.3.0.2, 10.3.0.3  far
//	      lte  10.2.0.1 ── 10.2.0.254              40 Mbit/s
type world struct {
	t                  *testing.T
	host, gateway, far *lab.Host
}

func newWorld(t *testing.T) *world {
	w := &world{t, lab.One(t), lab.One(t), lab.One(t)}
	cable := func(host *lab.Host, name, address, gateway string) {
		host.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", w.gateway.Path())
		host.Run("ip", "address", "add", address+"/24", "dev", name)
		host.Run("ip", "link", "set", name, "up")
		w.gateway.Run("ip", "address", "add", gateway+"/24", "dev", name)
		w.gateway.Run("ip", "link", "set", name, "up")
	}
	cable(w.host, "wifi", near, "10.1.0.254")
	cable(w.host, "lte", nearLTE, "10.2.0.254")
	cable(w.far, "wire", far, "10.3.0.254")
	for host, name := range map[*lab.Host]string{w.host: "wifi", w.far: "wire"} {
		prefix := map[string]string{"wifi": "fd01::", "wire": "fd03::"}[name]
		host.Run("ip", "address", "add", prefix+"1/64", "dev", name, "nodad")
		w.gateway.Run("ip", "address", "add", prefix+"2/64", "dev", name, "nodad")
		host.Run("ip", "-6", "route", "add", "default", "via", prefix+"2")
	}
	w.gateway.Sysctl("ipv6/conf/all/forwarding", "1")
	w.far.Run("ip", "address", "add", other+"/24", "dev", "wire")
	w.far.Run("ip", "route", "add", "default", "via", "10.3.0.254")
	w.host.Run("ip", "route", "add", "default", "via", "10.1.0.254")
	w.host.Run("ip", "route", "add", "default", "via", "10.2.0.254", "table", "2")
	w.host.Run("ip", "rule", "add", "from", nearLTE, "table", "2")
	w.gateway.Sysctl("ipv4/ip_forward", "1")
	w.host.Sysctl("ipv4/tcp_congestion_control", "reno") // the window of which grows until there is no room
	w.room(1_500_000)
	return w
}

// room is what waits at the gateway at most.
func (w *world) room(bytes int) {
	w.t.Helper()
	w.gateway.Run("tc", "qdisc", "replace", "dev", "wire", "root", "tbf", "rate", "40mbit", "burst", "10000", "limit", strconv.Itoa(bytes))
}

func (w *world) hand() *Hand {
	return NewHand(w.host.Try, slog.New(slog.NewTextHandler(said{w.t}, nil)))
}

// runs has a hand do its work until the test ends, or it is told to end.
func (w *world) runs(hand *Hand) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		hand.Run(ctx)
		close(ended)
	}()
	end = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(end)
	return end
}

func (w *world) order(hand *Hand, caps ...*agentv1.Cap) {
	w.t.Helper()
	if _, err := hand.Order(&agentv1.Caps{Caps: caps, LeaseMs: lease}); err != nil {
		w.t.Fatal(err)
	}
}

// upload is a connection that never has enough sent.
func (w *world) upload(to string, multipath bool) *upload {
	w.t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(multipath)
	var listener net.Listener
	w.far.Do(func() (err error) {
		listener, err = config.Listen(context.Background(), "tcp", net.JoinHostPort(to, "0"))
		return err
	})
	w.t.Cleanup(func() { listener.Close() })
	go func() {
		if taken, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, taken)
			taken.Close()
		}
	}()
	var dialer net.Dialer
	dialer.SetMultipathTCP(multipath)
	u := &upload{t: w.t}
	w.host.Do(func() (err error) {
		u.conn, err = dialer.Dial("tcp", listener.Addr().String())
		return err
	})
	w.t.Cleanup(func() { u.conn.Close() })
	u.port = netip.MustParseAddrPort(listener.Addr().String()).Port()
	go u.send()
	return u
}

// asked is an upload of a terminal that was connected to, in a socket that could be of either version.
func (w *world) asked() *upload {
	w.t.Helper()
	var listener net.Listener
	w.host.Do(func() (err error) {
		listener, err = net.Listen("tcp", "[::]:0")
		return err
	})
	w.t.Cleanup(func() { listener.Close() })
	w.far.Do(func() error {
		asking, err := net.Dial("tcp4", net.JoinHostPort(near, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)))
		if err == nil {
			go io.Copy(io.Discard, asking)
			w.t.Cleanup(func() { asking.Close() })
		}
		return err
	})
	taken, err := listener.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { taken.Close() })
	u := &upload{t: w.t, conn: taken}
	go u.send()
	return u
}

type upload struct {
	t    *testing.T
	conn net.Conn
	port uint16 // of the far end
}

func (u *upload) send() {
	for block := make([]byte, 1<<16); ; {
		if _, err := u.conn.Write(block); err != nil {
			return
		}
	}
}

func (u *upload) option(ask func(socket int) error) {
	u.t.Helper()
	raw, err := u.conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		var failed error
		if err = raw.Control(func(fd uintptr) { failed = ask(int(fd)) }); err == nil {
			err = failed
		}
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *upload) info() (info *unix.TCPInfo) {
	u.t.Helper()
	u.option(func(socket int) (err error) {
		info, err = unix.GetsockoptTCPInfo(socket, unix.SOL_TCP, unix.TCP_INFO)
		return err
	})
	return info
}

func (u *upload) control() (name string) {
	u.t.Helper()
	u.option(func(socket int) (err error) {
		name, err = unix.GetsockoptString(socket, unix.SOL_TCP, unix.TCP_CONGESTION)
		return err
	})
	name, _, _ = strings.Cut(name, "\x00")
	return name
}

func (u *upload) held() bool { return strings.HasPrefix(u.control(), "bicast_") }

func (u *upload) awaitWindow(least, most uint32) {
	u.t.Helper()
	await(u.t, func() bool { return between(u.info().Snd_cwnd, least, most) }, func() any { return u.info().Snd_cwnd }, least, most)
}

// stays sees to it that a window is where it should be for a while, too.
func (u *upload) stays(least, most uint32) {
	u.t.Helper()
	u.awaitWindow(least, most)
	for range 15 {
		if now := u.info().Snd_cwnd; !between(now, least, most) {
			u.t.Fatalf("a window of %d segments, expected %d to %d", now, least, most)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func between(value, least, most uint32) bool { return least <= value && value <= most }

func await(t *testing.T, done func() bool, now func() any, expected ...any) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v, expected %v", now(), expected)
		}
	}
}

func capOf(from, to string, least, most uint32) *agentv1.Cap {
	return &agentv1.Cap{TerminalAddress: from, OtherAddress: to, LeastSegments: least, MostSegments: most}
}

// said is a log in the test's own.
type said struct{ t *testing.T }

func (s said) Write(b []byte) (int, error) {
	s.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
