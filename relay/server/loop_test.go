// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/ratelog"
	"bicast/relay/internal/carry"
	"bicast/relay/internal/httpconnect"
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

func endsOf(conn *net.TCPConn) ends {
	return ends{conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()}
}

func TestRequestForTheRelaysOwnConnectionIsALoop(t *testing.T) {
	s := newServer(8, &ratelog.Logger{Log: slog.New(slog.DiscardHandler)})
	made, _ := connected(t)
	own := endsOf(made)
	asked := func(source netip.AddrPort) int {
		target := httpconnect.Of(own.to)
		target.For = source
		_, answer := s.connect(context.Background(), target)
		return answer.Code // the order lists no port: anything but a loop is forbidden
	}
	forget := s.note(made)
	for source, code := range map[netip.AddrPort]int{
		own.source: httpconnect.Loop, own.to: httpconnect.Forbidden, {}: httpconnect.Forbidden,
	} {
		if got := asked(source); got != code {
			t.Errorf("a connection from %v is answered with %d, expected %d", source, got, code)
		}
	}
	if forget(); asked(own.source) != httpconnect.Forbidden {
		t.Error("a connection that has ended is still taken for the relay's own")
	}
}

func TestServerRecordsItsConnectionsWhileTheyLive(t *testing.T) {
	s := newServer(8, &ratelog.Logger{Log: slog.New(slog.DiscardHandler)})
	near, gateway := connected(t)
	made, _ := connected(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.relay(context.Background(), carry.Server(near, &tls.Config{}), nil, made) // blocks in the gateway's handshake
	}()
	for late := time.Now().Add(time.Minute); !s.own(endsOf(made)); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the relay does not know the connection that it carries")
		}
	}
	own := endsOf(made)
	gateway.Close()
	<-ended
	if s.own(own) {
		t.Fatal("the relay takes a connection that has ended for its own")
	}
}
