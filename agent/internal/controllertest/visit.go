// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"

	"bicast/api/agentv1"
)

// Visit is the session of one agent. The test sends the controller's messages.
type Visit struct {
	controller *Controller
	conn       *tls.Conn
	messages   chan *agentv1.FromAgent
	stopping   chan struct{} // closed when the agent says that it stops
}

// session reads an agent's messages until the connection ends.
func (b *Controller) session(conn *tls.Conn, stopped <-chan struct{}) {
	visit := &Visit{b, conn, make(chan *agentv1.FromAgent, 1024), make(chan struct{})}
	defer close(visit.messages)
	select {
	case b.visits <- visit:
	case <-stopped:
		return
	}
	in := bufio.NewReader(conn)
	for {
		message := &agentv1.FromAgent{}
		if protodelim.UnmarshalFrom(in, message) != nil {
			return
		}
		if message.GetStopping() != nil {
			close(visit.stopping)
			visit.send(end(agentv1.End_PASSING, "the agent stopped"))
			conn.Close()
			return
		}
		select {
		case visit.messages <- message:
		case <-stopped:
			return
		}
	}
}

// Next waits for the session of an agent.
func (b *Controller) Next() *Visit {
	b.t.Helper()
	select {
	case visit := <-b.visits:
		return visit
	case <-time.After(Patience):
		b.t.Fatal("no agent connected")
		return nil
	}
}

// Visited reports whether an agent connects within a duration.
func (b *Controller) Visited(within time.Duration) bool {
	select {
	case <-b.visits:
		return true
	case <-time.After(within):
		return false
	}
}

// Welcomed waits for an agent and sends Welcome.
func (b *Controller) Welcomed(everyMS uint32) (*Visit, *agentv1.Hello) {
	b.t.Helper()
	visit := b.Next()
	hello := visit.Message().GetHello()
	if hello == nil {
		b.t.Fatal("the first message of an agent is no Hello")
	}
	visit.Say(&agentv1.FromController{Payload: &agentv1.FromController_Welcome{
		Welcome: &agentv1.Welcome{Protocol: 1, ReportIntervalMs: everyMS},
	}})
	return visit, hello
}

// Message waits for the agent's next message.
func (v *Visit) Message() *agentv1.FromAgent {
	v.controller.t.Helper()
	select {
	case message, open := <-v.messages:
		if !open {
			v.controller.t.Fatal("the agent ended the stream, expected a message")
		}
		return message
	case <-time.After(Patience):
		v.controller.t.Fatal("timeout while waiting for a message of the agent")
	}
	return nil
}

// Report waits for the next report and skips other messages.
func (v *Visit) Report() *agentv1.Report {
	v.controller.t.Helper()
	for {
		if report := v.Message().GetReport(); report != nil {
			return report
		}
	}
}

// Result waits for the next result and acknowledges reports before it.
func (v *Visit) Result() *agentv1.Result {
	v.controller.t.Helper()
	for {
		message := v.Message()
		if result := message.GetResult(); result != nil {
			return result
		}
		if report := message.GetReport(); report != nil {
			v.Take(report)
		}
	}
}

// Silent reports whether the agent sends nothing for a duration.
func (v *Visit) Silent(d time.Duration) bool {
	select {
	case <-v.messages:
		return false
	case <-time.After(d):
		return true
	}
}

// Ended waits for the end of the stream.
func (v *Visit) Ended() {
	v.controller.t.Helper()
	patience := time.After(Patience)
	for {
		select {
		case _, open := <-v.messages:
			if !open {
				return
			}
		case <-patience:
			v.controller.t.Fatal("the agent did not end the stream")
		}
	}
}

// Stopped waits until the agent says that it stops.
func (v *Visit) Stopped() {
	v.controller.t.Helper()
	select {
	case <-v.stopping:
	case <-time.After(Patience):
		v.controller.t.Fatal("the agent did not say that it stops")
	}
}

// Say sends a message.
func (v *Visit) Say(message *agentv1.FromController) {
	v.controller.t.Helper()
	if err := v.send(message); err != nil {
		v.controller.t.Fatal(err)
	}
}

func (v *Visit) send(message *agentv1.FromController) error {
	var whole bytes.Buffer // one write, because tests send concurrently
	if _, err := protodelim.MarshalTo(&whole, message); err != nil {
		return err
	}
	_, err := v.conn.Write(whole.Bytes())
	return err
}

// SayRaw sends bytes that need not be a message, after their length.
func (v *Visit) SayRaw(b []byte) {
	v.controller.t.Helper()
	v.SayBare(protowire.AppendBytes(nil, b))
}

// SayBare sends bytes without their length.
func (v *Visit) SayBare(b []byte) {
	v.controller.t.Helper()
	if _, err := v.conn.Write(b); err != nil {
		v.controller.t.Fatal(err)
	}
}

// SayUnwelcome sends a message that may make the agent end the connection before all of it is sent.
func (v *Visit) SayUnwelcome(message *agentv1.FromController) { v.send(message) }

// Take acknowledges a report.
func (v *Visit) Take(report *agentv1.Report) {
	v.controller.t.Helper()
	v.Say(&agentv1.FromController{Payload: &agentv1.FromController_Ack{Ack: &agentv1.ReportAck{Sequence: report.GetSequence()}}})
}

// Order sends a directive.
func (v *Visit) Order(directive *agentv1.Directive) {
	v.controller.t.Helper()
	v.Say(&agentv1.FromController{Payload: &agentv1.FromController_Directive{Directive: directive}})
}

// End ends the stream with a reason.
func (v *Visit) End(cause agentv1.End_Cause, reason string) {
	v.controller.t.Helper()
	v.Say(end(cause, reason))
	v.conn.CloseWrite() // the agent closes the connection, and loses nothing
}

// Break ends the stream without a reason, as abruptly as a killed process.
func (v *Visit) Break() { v.conn.NetConn().Close() }

func end(cause agentv1.End_Cause, reason string) *agentv1.FromController {
	return &agentv1.FromController{Payload: &agentv1.FromController_End{End: &agentv1.End{Cause: cause, Reason: reason}}}
}
