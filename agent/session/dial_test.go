// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"bicast/agent/internal/controllertest"
	"bicast/agent/session"
	"bicast/api/agentv1"
)

// A controller that keeps the connection but does not read.
func TestClosingAWireUnblocksSendAndRecv(t *testing.T) {
	controller := controllertest.New(t)
	wire, err := session.Dialer(controller.Directory("phone"))(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sent, failed := make(chan struct{}), make(chan error, 2)
	go func() {
		message := &agentv1.FromAgent{Payload: &agentv1.FromAgent_Hello{Hello: &agentv1.Hello{Version: strings.Repeat("1", 1<<14)}}}
		for {
			if err := wire.Send(message); err != nil {
				failed <- err
				return
			}
			sent <- struct{}{}
		}
	}()
	go func() {
		_, err := wire.Recv()
		failed <- err
	}()
	for blocked := false; !blocked; { // the controller of tests reads 1024 messages ahead
		select {
		case <-sent:
		case err := <-failed:
			t.Fatalf("%v before the wire was closed", err)
		case <-time.After(500 * time.Millisecond):
			blocked = true
		}
	}
	start := time.Now()
	wire.Close()
	for range 2 {
		select {
		case err := <-failed:
			if err == nil {
				t.Error("a call succeeded on a closed wire")
			}
		case <-time.After(controllertest.Patience):
			t.Fatal("a call is still blocked")
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Fatalf("closing took %v, expected less than the 5 s of a close of TLS", took)
	}
}

func TestDialGivesUpIfNobodyAnswersTheHandshake(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	directory := t.TempDir()
	if err := controllertest.NewAuthority(t).Identity("phone", listener.Addr().String()).Save(directory); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = session.Dialer(directory)(context.Background())
	if err == nil || !strings.Contains(err.Error(), "cannot connect to the controller at "+listener.Addr().String()+": no answer within 5s") {
		t.Fatalf("%v, expected that nobody answers", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Fatalf("it took %v, expected 5 s", took)
	}
}
