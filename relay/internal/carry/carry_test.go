// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
)

const (
	within   = time.Minute
	boundary = 64 << 10 // size of socket buffers, if a test depends on it
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near, far = dialed.(*net.TCPConn), accepted.(*net.TCPConn)
	for _, conn := range []*net.TCPConn{near, far} {
		t.Cleanup(func() { conn.Close() })
		conn.SetReadBuffer(boundary)
		conn.SetWriteBuffer(boundary)
	}
	return near, far
}

// tunnel returns both ends of a TLS connection.
func tunnel(t *testing.T) (gateway, relay *Secure) {
	t.Helper()
	authority := mtlstest.New(t)
	client, err := mtls.Gateway(authority.Gateway("home", time.Hour), "tokyo")
	if err != nil {
		t.Fatal(err)
	}
	server, err := mtls.Relay(authority.Relay("tokyo"), []string{"home"})
	if err != nil {
		t.Fatal(err)
	}
	near, far := connected(t)
	gateway, relay = Client(near, client), Server(far, server)
	shaken := make(chan error, 1)
	go func() { shaken <- relay.Handshake(context.Background(), within) }()
	if err := errors.Join(gateway.Handshake(context.Background(), within), gateway.AwaitAcceptance(within), <-shaken); err != nil {
		t.Fatal(err)
	}
	return gateway, relay
}

// road is terminal - gateway - relay - server, with TLS in the middle.
type road struct {
	terminal, server *net.TCPConn
	gateway, relay   *Secure
	outcomes         chan error // results of both pairs
}

func newRoad(t *testing.T) road { return newRoadOf(t, Pair{}) }

// newRoadOf returns a road whose pairs have these time limits.
func newRoadOf(t *testing.T, times Pair) road {
	t.Helper()
	r := road{outcomes: make(chan error, 2)}
	var near, far *net.TCPConn
	r.terminal, near = connected(t)
	far, r.server = connected(t)
	r.gateway, r.relay = tunnel(t)
	for _, ends := range [][2]End{{OfTCP(near), r.gateway}, {r.relay, OfTCP(far)}} {
		pair := times
		pair.Near, pair.Far = ends[0], ends[1]
		go func() { r.outcomes <- pair.Run() }()
	}
	for _, conn := range []*net.TCPConn{r.terminal, r.server} {
		conn.SetDeadline(time.Now().Add(within))
	}
	return r
}

func TestDirectionsEndIndependently(t *testing.T) {
	r := newRoad(t)
	for _, way := range []struct{ from, to *net.TCPConn }{{r.server, r.terminal}, {r.terminal, r.server}} { // a server may end first
		sent := bytes.Repeat([]byte("0123456789"), 30_000)
		go func() {
			way.from.Write(sent)
			way.from.CloseWrite()
		}()
		if got, err := io.ReadAll(way.to); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes came of %d (%v)", len(got), len(sent), err)
		}
	}
	for range 2 {
		if err := <-r.outcomes; err != nil {
			t.Fatalf("%v, expected both to have ended by themselves", err)
		}
	}
}

func TestResetIsForwarded(t *testing.T) {
	for _, fromServer := range []bool{false, true} {
		r := newRoad(t)
		from, to := r.terminal, r.server
		if fromServer {
			from, to = to, from
		}
		to.Write([]byte("x"))
		io.ReadFull(from, make([]byte, 1))
		from.SetLinger(0)
		from.Close()
		if _, err := to.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Fatalf("it reads %v, expected a reset", err)
		}
	}
}

func TestTunnelWithoutCloseNotifyIsCut(t *testing.T) {
	r := newRoad(t)
	r.terminal.Write([]byte("half of it"))
	if _, err := io.ReadFull(r.server, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.gateway.wire.TCPConn.CloseWrite() // TCP ends between two records, TLS does not
	if n, err := r.server.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the server reads %d bytes and %v, expected a reset: this may not be all", n, err)
	}
}

func TestSlowReaderBoundsBuffering(t *testing.T) {
	r := newRoad(t)
	sent, block := 0, make([]byte, 32<<10)
	for i := range block {
		block[i] = byte(i % 251)
	}
	r.terminal.SetWriteDeadline(time.Now().Add(time.Second / 2))
	for {
		n, err := r.terminal.Write(block)
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if sent > 64<<20 {
			t.Fatalf("the relay accepted %d bytes without a reader", sent)
		}
	}
	if most := 3*2*2*boundary + busyBytes + gatherBytes; sent > 2*most {
		t.Fatalf("%d bytes wait, expected no more than what kernel and buffers hold, some %d", sent, most)
	}
	r.terminal.SetWriteDeadline(time.Time{})
	r.terminal.CloseWrite()
	got, err := io.ReadAll(r.server)
	if err != nil || len(got) != sent {
		t.Fatalf("%d bytes came of %d (%v)", len(got), sent, err)
	}
}

func TestResetIsNoticedWhileTheOtherEndDoesNotRead(t *testing.T) {
	r := newRoad(t)
	r.terminal.SetWriteDeadline(time.Now().Add(time.Second / 4))
	for block := make([]byte, 32<<10); ; {
		if _, err := r.terminal.Write(block); err != nil {
			break
		}
	}
	r.terminal.SetLinger(0)
	r.terminal.Close()
	for range 2 {
		select {
		case err := <-r.outcomes:
			if err == nil {
				t.Fatal("it ended by itself")
			}
		case <-time.After(within):
			t.Fatalf("what is cut off is still carried after %v", within)
		}
	}
}

func TestIdlePairIsEnded(t *testing.T) {
	newRoadOf(t, Pair{Idle: time.Second}).rests(t)
}

func TestTimedPairLivesWhileDataMoves(t *testing.T) {
	r := newRoadOf(t, Pair{Idle: time.Second})
	for range 4 { // data in either direction keeps the pair alive
		time.Sleep(300 * time.Millisecond)
		r.server.Write([]byte("x"))
		if _, err := io.ReadFull(r.terminal, make([]byte, 1)); err != nil {
			t.Fatalf("it ended while bytes came: %v", err)
		}
	}
	r.rests(t)
}

// rests waits until both pairs are cut.
func (r road) rests(t *testing.T) {
	t.Helper()
	for range 2 {
		if err := <-r.outcomes; err == nil {
			t.Fatal("it ended by itself, expected it to be cut")
		}
	}
	if _, err := r.terminal.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the terminal reads %v, expected a reset", err)
	}
}

// The server never closes.
func TestHalfClosedTerminalIsEventuallyEnded(t *testing.T) {
	const rests = 3 * time.Second // so long that a stalled machine can still deliver the request
	r := newRoadOf(t, Pair{HalfClosed: rests})
	began := time.Now()
	r.terminal.Write([]byte("question"))
	r.terminal.CloseWrite()
	if got, err := io.ReadAll(r.server); err != nil || string(got) != "question" {
		t.Fatalf("the server got %q (%v)", got, err)
	}
	if _, err := r.terminal.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("the terminal reads %v, expected a reset: there will be no answer", err)
	}
	for range 2 {
		<-r.outcomes
	}
	if took := time.Since(began); took < rests {
		t.Fatalf("it was ended after %v, expected the server to have its time", took)
	}
}

func TestHalfClosedServerIsReadToTheEnd(t *testing.T) {
	r := newRoadOf(t, Pair{HalfClosed: 50 * time.Millisecond})
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		r.server.Write(sent)
		r.server.CloseWrite()
	}()
	var got bytes.Buffer
	for range 8 { // each longer than the limit
		time.Sleep(60 * time.Millisecond)
		if _, err := io.CopyN(&got, r.terminal, 40<<10); err != nil {
			t.Fatalf("after %d bytes of %d: %v", got.Len(), len(sent), err)
		}
	}
	if _, err := io.Copy(&got, r.terminal); err != nil || !bytes.Equal(got.Bytes(), sent) {
		t.Fatalf("%d bytes came of %d (%v)", got.Len(), len(sent), err)
	}
}

// The terminal's kernel has forgotten the connection and answers keepalive probes with a reset.
func TestVanishedHalfClosedTerminalIsNoticed(t *testing.T) {
	r := newRoadOf(t, Pair{HalfClosed: 400 * time.Millisecond})
	r.terminal.Write([]byte("x"))
	r.terminal.CloseWrite()
	io.ReadAll(r.server)
	r.terminal.SetLinger(0)
	r.terminal.Close()
	late := time.After(within)
	for stop := time.NewTicker(50 * time.Millisecond); ; { // the server keeps sending, so the pair is never idle
		select {
		case <-stop.C:
			r.server.Write([]byte("x"))
		case err := <-r.outcomes:
			if err == nil {
				t.Fatal("it ended by itself")
			}
			return
		case <-late:
			t.Fatalf("what is cut off is still carried after %v", within)
		}
	}
}
