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

// Visit is one agent's stream. The test says what the controller says.
type Visit struct {
	brain  *Controller
	stream grpc.ServerStream
	words  chan *agentv1.FromAgent
	over   chan error
	bye    chan struct{} // the agent has said that it will say no more
}

// Session is the contract's.
func (b *Controller) Session(stream agentv1.Agents_SessionServer) error {
	visit := &Visit{brain: b, stream: stream, words: make(chan *agentv1.FromAgent, 1024), over: make(chan error)}
	visit.bye = make(chan struct{})
	b.visits <- visit
	go func() {
		defer close(visit.words)
		for {
			word, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				close(visit.bye)
			}
			if err != nil {
				return
			}
			visit.words <- word
		}
	}()
	select {
	case err := <-visit.over:
		return err
	case <-visit.bye:
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// Next awaits an agent.
func (b *Controller) Next() *Visit {
	b.t.Helper()
	select {
	case visit := <-b.visits:
		return visit
	case <-time.After(Patience):
		b.t.Fatal("no agent came")
		return nil
	}
}

// Visited tells whether an agent comes within so long.
func (b *Controller) Visited(within time.Duration) bool {
	select {
	case <-b.visits:
		return true
	case <-time.After(within):
		return false
	}
}

// Welcomed awaits an agent and bids it welcome.
func (b *Controller) Welcomed(everyMS uint32) (*Visit, *agentv1.Hello) {
	b.t.Helper()
	visit := b.Next()
	hello := visit.Word().GetHello()
	if hello == nil {
		b.t.Fatal("an agent did not begin with a hello")
	}
	visit.Say(&agentv1.FromController{Word: &agentv1.FromController_Welcome{
		Welcome: &agentv1.Welcome{Protocol: 1, ReportIntervalMs: everyMS},
	}})
	return visit, hello
}

// Word awaits the agent's next word.
func (v *Visit) Word() *agentv1.FromAgent {
	v.brain.t.Helper()
	select {
	case word, open := <-v.words:
		if !open {
			v.brain.t.Fatal("the agent ended the stream, expected a word")
		}
		return word
	case <-time.After(Patience):
		v.brain.t.Fatal("the agent says nothing")
	}
	return nil
}

// Report awaits the next report and passes over other words.
func (v *Visit) Report() *agentv1.Report {
	v.brain.t.Helper()
	for {
		if report := v.Word().GetReport(); report != nil {
			return report
		}
	}
}

// Result awaits the next result, and takes the reports before it.
func (v *Visit) Result() *agentv1.Result {
	v.brain.t.Helper()
	for {
		word := v.Word()
		if result := word.GetResult(); result != nil {
			return result
		}
		if report := word.GetReport(); report != nil {
			v.Take(report)
		}
	}
}

// Silent tells whether the agent says nothing for so long.
func (v *Visit) Silent(d time.Duration) bool {
	select {
	case <-v.words:
		return false
	case <-time.After(d):
		return true
	}
}

// Ended awaits the end of the stream.
func (v *Visit) Ended() {
	v.brain.t.Helper()
	patience := time.After(Patience)
	for {
		select {
		case _, open := <-v.words:
			if !open {
				return
			}
		case <-patience:
			v.brain.t.Fatal("the agent did not end the stream")
		}
	}
}

// Stopped awaits that the agent says of itself that it is stopped.
func (v *Visit) Stopped() {
	v.brain.t.Helper()
	select {
	case <-v.bye:
	case <-time.After(Patience):
		v.brain.t.Fatal("the agent did not say that it is stopped")
	}
}

// Say says a word.
func (v *Visit) Say(word *agentv1.FromController) {
	v.brain.t.Helper()
	if err := v.stream.SendMsg(word); err != nil {
		v.brain.t.Fatal(err)
	}
}

// SayRaw says something that need not be a word.
func (v *Visit) SayRaw(b []byte) {
	v.brain.t.Helper()
	if err := v.stream.SendMsg(raw(b)); err != nil {
		v.brain.t.Fatal(err)
	}
}

// Take takes a report.
func (v *Visit) Take(report *agentv1.Report) {
	v.brain.t.Helper()
	v.Say(&agentv1.FromController{Word: &agentv1.FromController_Taken{Taken: &agentv1.Taken{Sequence: report.GetSequence()}}})
}

// Order gives a directive.
func (v *Visit) Order(directive *agentv1.Directive) {
	v.brain.t.Helper()
	v.Say(&agentv1.FromController{Word: &agentv1.FromController_Directive{Directive: directive}})
}

// End ends the stream.
func (v *Visit) End(err error) { v.over <- err }

// What goes on the wire as it is.
type raw []byte

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(word any) ([]byte, error) {
	if bytes, is := word.(raw); is {
		return bytes, nil
	}
	return proto.Marshal(word.(proto.Message))
}

func (codec) Unmarshal(bytes []byte, word any) error {
	message, is := word.(proto.Message)
	if !is {
		return fmt.Errorf("%T is no message", word)
	}
	return proto.Unmarshal(bytes, message)
}
