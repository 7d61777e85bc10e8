package session

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"bicast/api/agentv1"
)

// A stream that has ended, or takes what is said.
type fakeWire struct {
	agentv1.Agents_SessionClient
	fails error
	said  []*agentv1.FromAgent
}

func (f *fakeWire) Send(word *agentv1.FromAgent) error {
	if f.fails == nil {
		f.said = append(f.said, word)
	}
	return f.fails
}

func TestAReflexThatAStreamCouldNotTellOfIsToldByTheNext(t *testing.T) {
	session := New(nil, nil, slog.New(slog.DiscardHandler))
	ended, next := newStream(context.Background(), session), newStream(context.Background(), session)
	ended.wire = &fakeWire{fails: io.EOF}
	if err := ended.tellFired(&agentv1.Fired{Name: "wifi"}); err == nil {
		t.Fatal("what could not be said passed for said")
	}
	wire := &fakeWire{}
	next.wire = wire
	for range 2 {
		if err := next.tellFired(nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(wire.said) != 1 || wire.said[0].GetFired().GetName() != "wifi" {
		t.Fatalf("%v, expected the reflex, once", wire.said)
	}
}
