// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
	"bicast/internal/ratelog"
	"bicast/relay/internal/carry"
)

const (
	within = time.Minute
	soon   = 50 * time.Millisecond
)

// relay serves home and cabin, and opens connections to itself as home.
type relay struct {
	t      *testing.T
	server *Server
	home   mtls.Files
	at     string
}

func serving(t *testing.T, most int, times times, guests ...string) *relay {
	t.Helper()
	authority := mtlstest.New(t)
	shows, pool, err := authority.Relay("tokyo").Load()
	if err != nil {
		t.Fatal(err)
	}
	order := Order{Shows: shows, Authority: pool, Guests: mtls.Named(guests)}
	r := &relay{t: t, home: authority.Gateway("home", time.Hour)}
	r.server = newServer(most, &ratelog.Logger{Log: slog.New(slog.DiscardHandler)})
	r.server.Obey(order)
	r.server.times = times
	ctx, stop := context.WithCancel(context.Background())
	listener, err := Listen(ctx, netip.MustParseAddrPort("127.0.0.1:0"), "")
	if err != nil {
		t.Fatal(err)
	}
	r.at = listener.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.server.Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return r
}

// opens returns an accepted connection of home.
func (r *relay) opens() *carry.Secure {
	r.t.Helper()
	end := r.comes()
	if err := end.AwaitAcceptance(within); err != nil {
		r.t.Fatal(err)
	}
	end.SetReadDeadline(time.Now().Add(within))
	return end
}

// comes returns a connection of home that may be refused.
func (r *relay) comes() *carry.Secure {
	r.t.Helper()
	config, err := mtls.Gateway(r.home, "tokyo")
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	end := carry.Client(conn.(*net.TCPConn), config)
	r.t.Cleanup(end.Reset)
	if err := end.Handshake(context.Background(), within); err != nil {
		r.t.Fatal(err)
	}
	end.SetReadDeadline(time.Now().Add(within))
	return end
}

// answered returns everything the relay sends until it closes.
func (r *relay) answered(end *carry.Secure) string {
	r.t.Helper()
	text, err := io.ReadAll(end)
	if err != nil {
		r.t.Fatalf("%q, and then %v, expected an answer and its end", text, err)
	}
	return string(text)
}

// waits waits until this many connections are accepted.
func (r *relay) waits(count int) {
	r.t.Helper()
	for late := time.Now().Add(within); r.server.Totals().Waiting != count; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("%d connections wait, expected %d", r.server.Totals().Waiting, count)
		}
	}
}

func TestGatewayLeavesConnectionsToOthers(t *testing.T) {
	r := serving(t, 4, defaultTimes, "home", "cabin")
	for n := range 2 {
		r.opens()
		r.waits(n + 1)
	}
	if said := r.answered(r.comes()); !strings.HasPrefix(said, "HTTP/1.1 429 ") || !strings.Contains(said, "2 connections of 4") {
		t.Fatalf("the third of 4 says %q, expected 429: two are for the other gateway", said)
	}
	if refused := r.server.Totals().Refused; refused != 1 {
		t.Fatalf("%d are counted as refused, expected 1", refused)
	}
}

func TestSingleGatewayMayUseAllConnections(t *testing.T) {
	r := serving(t, 4, defaultTimes, "home")
	for n := range 4 {
		r.opens()
		r.waits(n + 1)
	}
	if said := r.answered(r.comes()); !strings.HasPrefix(said, "HTTP/1.1 429 ") {
		t.Fatalf("the fifth of 4 says %q, expected 429", said)
	}
}

func TestRefusedGatewayGetsTheReason(t *testing.T) {
	r := serving(t, 0, defaultTimes, "home")
	end := r.comes()
	err := end.AwaitAcceptance(within)
	if err == nil { // the refusal came after the ticket
		err = errors.New(r.answered(end))
	}
	if !strings.Contains(err.Error(), "HTTP/1.1 429 ") {
		t.Fatalf("the error is %v, expected the relay's answer", err)
	}
}

func TestConnectionWithoutRequestIsClosedAfterItsTimeout(t *testing.T) {
	short := defaultTimes
	short.idle = soon
	r := serving(t, 4, short, "home")
	began := time.Now()
	said := r.answered(r.opens())
	if took := time.Since(began); !strings.HasPrefix(said, "HTTP/1.1 408 ") || took < soon {
		t.Fatalf("%q after %v, expected 408 after %v", said, took, soon)
	}
}

func TestUnfinishedRequestIsClosedAfterItsTimeout(t *testing.T) {
	short := defaultTimes
	short.requestTime = soon
	r := serving(t, 4, short, "home")
	end := r.opens()
	r.waits(1)
	time.Sleep(2 * soon) // until its first byte the idle timeout applies
	if err := end.Send([]byte("CONNECT 45.0.0.2:80 HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	if said := r.answered(end); !strings.HasPrefix(said, "HTTP/1.1 408 ") {
		t.Fatalf("half a request is answered with %q, expected 408", said)
	}
}

func TestRefusedPeerThatKeepsSendingIsCut(t *testing.T) {
	short := defaultTimes
	short.refuse = soon
	r := serving(t, 4, short, "home")
	end := r.opens()
	if err := end.Send([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(within); ; time.Sleep(soon / 10) {
		if err := end.Send([]byte("x")); err != nil {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("the relay reads a refused client for longer than %v, expected %v", within, soon)
		}
	}
}
