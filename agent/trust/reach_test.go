// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
	"bicast/api/agentv1"
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
		"nobody":  {nobody, []string{"nobody answers at " + nobody + " (connection refused)", "check that the controller runs"}},
		"no port": {"127.0.0.1:abc", []string{`nobody answers at 127.0.0.1:abc (invalid port "abc"`}},
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
			for _, raw := range []string{"tls:", "proto:", "EOF", "dial tcp", "read tcp"} {
				if strings.Contains(err.Error(), raw) {
					t.Fatalf("said %q, expected no words of a library such as %q", err, raw)
				}
			}
		})
	}
}

func TestJoinExplainsEveryAnswerButACertificate(t *testing.T) {
	authority := controllertest.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Controller(nil)}}
	refusal := func(cause agentv1.End_Cause) []byte {
		end := &agentv1.End{Cause: cause, Reason: "the reason"}
		answer, err := proto.Marshal(&agentv1.JoinAnswer{Payload: &agentv1.JoinAnswer_Refused{Refused: end}})
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendBytes(nil, answer)
	}
	silent := []string{"closed the connection or sent no answer", "not controller.agents.listen"}
	for name, c := range map[string]struct {
		answer []byte // nil: none
		says   []string
	}{
		"passing":      {refusal(agentv1.End_PASSING), []string{"cannot enrol agents now: the reason"}},
		"refused":      {refusal(agentv1.End_REFUSED), []string{"refused the request: the reason"}},
		"token":        {refusal(agentv1.End_CREDENTIAL), []string{"refused the token: the reason"}},
		"unknown type": {[]byte{0}, []string{"an answer of unknown type", "install the agent of its version"}},
		"garbage":      {[]byte{4, 0xff, 0xff, 0xff, 0xff}, []string{"invalid answer of the controller at"}},
		"too long":     {protowire.AppendVarint(nil, 64<<10+1), []string{"invalid answer of the controller at"}},
		"half":         {refusal(agentv1.End_REFUSED)[:5], silent},
		"nothing":      {[]byte{}, silent},
		"no answer":    {nil, silent},
	} {
		t.Run(name, func(t *testing.T) {
			patience := controllertest.Patience
			if c.answer == nil {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			address := stranger(t, func(plain net.Conn) {
				conn := tls.Server(plain, config)
				protodelim.UnmarshalFrom(bufio.NewReader(conn), &agentv1.JoinRequest{})
				conn.Write(c.answer)
				if c.answer == nil {
					io.Copy(io.Discard, conn) // until the agent gives up
				}
			})
			_, err := trust.Join(ctx, address, "phone", trust.Token{Secret: "secret", Pin: authority.Pin()})
			says(t, err, c.says...)
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
