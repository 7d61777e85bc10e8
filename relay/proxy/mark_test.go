// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net"
	"testing"
	"time"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
	"bicast/relay/internal/carry"
	"bicast/relay/internal/httpconnect"
	"bicast/relay/internal/pool"
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (one, other *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// A relay recognizes its own connections by their source.
func TestRequestNamesTheSourceOfTheConnection(t *testing.T) {
	authority := mtlstest.New(t)
	serving, err := mtls.Relay(authority.Relay("tokyo"), []string{"home"})
	if err != nil {
		t.Fatal(err)
	}
	calling, err := mtls.Gateway(authority.Gateway("home", time.Hour), "tokyo")
	if err != nil {
		t.Fatal(err)
	}
	gateway, relay := connected(t)
	asked := make(chan httpconnect.Target, 1)
	go func() {
		defer close(asked)
		end := carry.Server(relay, serving)
		end.SetReadDeadline(time.Now().Add(time.Minute))
		header, _, err := httpconnect.Header(end, make([]byte, httpconnect.HeaderBytes), nil)
		if err != nil {
			return
		}
		if target, err := httpconnect.Parse(header); err == nil {
			asked <- target
		}
		end.Send(httpconnect.No(httpconnect.Loop, "it is mine").Bytes())
	}()

	terminal, taken := connected(t)
	ctx := context.Background()
	tokyo := &Relay{Name: "tokyo"}
	tokyo.Begin(ctx)
	one := &Terminal{}
	way := &relayPath{relay: tokyo, pool: pool.New(nil, nil, tokyo.turns)}
	end := carry.Client(gateway, calling)
	if err := end.Handshake(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	to := taken.LocalAddr().(*net.TCPAddr).AddrPort()
	c := call{&Proxy{}, &Plan{}, one, newReplay(carry.OfTCP(taken), &one.counts), to}
	if came := c.through(ctx, way, end); came != tryNone {
		t.Fatalf("%v came of it, expected that no relay leads there", came)
	}
	source := terminal.LocalAddr().(*net.TCPAddr).AddrPort()
	if target := <-asked; target.For != source || target.Port != to.Port() {
		t.Fatalf("asked for %v from %v, expected %v from %v", target, target.For, to, source)
	}
}
