// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
)

// Visit is the session of one agent. The test sends the controller's messages.
type Visit struct {
	controller *Controller
	stream     grpc.ServerStream
	messages   chan *agentv1.FromAgent
	ended      chan error
	halfClosed chan struct{} // closed when the agent half-closes the stream
}

// Session implements agentv1.AgentsServer.
func (b *Controller) Session(stream agentv1.Agents_SessionServer) error {
	visit := &Visit{controller: b, stream: stream, messages: make(chan *agentv1.FromAgent, 1024), ended: make(chan error)}
	visit.halfClosed = make(chan struct{})
	b.visits <- visit
	go func() {
		defer close(visit.messages)
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				close(visit.halfClosed)
			}
			if err != nil {
				return
			}
			visit.messages <- message
		}
	}()
	select {
	case err := <-visit.ended:
		return err
	case <-visit.halfClosed:
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
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

// Word waits for the agent's next message.
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

// Stopped waits until the agent half-closes the stream because it is stopped.
func (v *Visit) Stopped() {
	v.controller.t.Helper()
	select {
	case <-v.halfClosed:
	case <-time.After(Patience):
		v.controller.t.Fatal("the agent did not half-close the stream")
	}
}

// Say sends a message.
func (v *Visit) Say(message *agentv1.FromController) {
	v.controller.t.Helper()
	if err := v.stream.SendMsg(message); err != nil {
		v.controller.t.Fatal(err)
	}
}

// SayRaw sends bytes that need not be a message.
func (v *Visit) SayRaw(b []byte) {
	v.controller.t.Helper()
	if err := v.stream.SendMsg(raw(b)); err != nil {
		v.controller.t.Fatal(err)
	}
}

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

// End ends the stream.
func (v *Visit) End(err error) { v.ended <- err }

// raw is sent without encoding.
type raw []byte

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) ([]byte, error) {
	if bytes, is := message.(raw); is {
		return bytes, nil
	}
	return proto.Marshal(message.(proto.Message))
}

func (codec) Unmarshal(bytes []byte, message any) error {
	target, is := message.(proto.Message)
	if !is {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	return proto.Unmarshal(bytes, target)
}
