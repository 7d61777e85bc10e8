// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
)

// stranger starts another server and returns its address.
func stranger(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

func TestJoinErrorsNameThePeerAndTheRemedy(t *testing.T) {
	b := controllertest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	for name, c := range map[string]struct {
		address string
		says    []string
	}{
		"nobody": {nobody, []string{"nobody answers at " + nobody + " (connection refused)", "check that the controller runs"}},
		"no TLS": {stranger(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 1))
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), []string{"is not the controller (it does not speak TLS)", "`bicast enroll`"}},
		"hangs up":       {stranger(t, func(net.Conn) {}), []string{"it closed the connection before it showed a certificate", "`bicast enroll`"}},
		"the wrong door": {b.Sessions, []string{b.Sessions, "controller.agents.join", "not controller.agents.listen"}},
		"another's":      {controllertest.New(t).Enrolment, []string{"did not get the token", "fingerprint in the token"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), controllertest.Patience)
			defer cancel()
			_, err := trust.Join(ctx, c.address, "phone", b.Token("phone"))
			says(t, err, c.says...)
			for _, raw := range []string{"desc =", "transport:", "rpc error"} {
				if strings.Contains(err.Error(), raw) {
					t.Fatalf("said %q, expected no words of gRPC's such as %q", err, raw)
				}
			}
		})
	}
}

// A proxy before the controller that ends the first connection: before TLS, or after a number of bytes of answers.
func crowded(t *testing.T, b *controllertest.Controller, lets func(toAgent io.Writer, fromController io.Reader)) string {
	t.Helper()
	first := true
	return stranger(t, func(agent net.Conn) {
		if first && lets == nil {
			first = false
			return
		}
		controller, err := net.Dial("tcp", b.Enrolment)
		if err != nil {
			t.Error(err)
			return
		}
		defer controller.Close()
		go io.Copy(controller, agent)
		if first {
			first = false
			lets(agent, controller)
		} else {
			io.Copy(agent, controller)
		}
	})
}

func TestJoinRetriesOnceIfTheControllerHangsUp(t *testing.T) {
	for name, lets := range map[string]func(io.Writer, io.Reader){
		"before TLS": nil,
		"within TLS": func(agent io.Writer, controller io.Reader) { io.CopyN(agent, controller, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			b := controllertest.New(t)
			ctx, cancel := context.WithTimeout(context.Background(), controllertest.Patience)
			defer cancel()
			if _, err := trust.Join(ctx, crowded(t, b, lets), "phone", b.Token("phone")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestALostAnswerAsksToEnrolAgain(t *testing.T) {
	b := controllertest.New(t)
	address := crowded(t, b, func(agent io.Writer, controller io.Reader) {
		answers := make([]byte, 1<<16)
		for b.Asked() == 0 { // answers after the join are lost
			n, err := controller.Read(answers)
			if err != nil {
				t.Error(err)
				return
			}
			if b.Asked() == 0 {
				agent.Write(answers[:n])
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), controllertest.Patience)
	defer cancel()
	_, err := trust.Join(ctx, address, "phone", b.Token("phone"))
	says(t, err, "refused the token", "run `bicast enroll phone`")
}
