// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"

	"bicast/api/agentv1"
)

// A stream that has ended, or accepts all messages.
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

// A host with fired failovers.
type firedHost struct {
	Host
	fired chan *agentv1.FailoverFired
}

func (f firedHost) Fired() <-chan *agentv1.FailoverFired { return f.fired }

func (f firedHost) Probed() <-chan *agentv1.ProbeReport { return nil }

func (f firedHost) Report() (*agentv1.Report, error) { return &agentv1.Report{}, nil }

// Consecutive streams of one session, and the fired failovers that each sends.
type streams struct {
	t       *testing.T
	host    firedHost
	session *Session
}

func newStreams(t *testing.T) *streams {
	host := firedHost{fired: make(chan *agentv1.FailoverFired, 8)}
	return &streams{t, host, New(nil, host, slog.New(slog.DiscardHandler))}
}

func (s *streams) begin(fails error) (*stream, *fakeWire) {
	wire := &fakeWire{fails: fails}
	live := newStream(context.Background(), s.session)
	live.wire = wire
	s.session.unconfirmed.startStream()
	return live, wire
}

func (s *streams) expect(wire *fakeWire, names ...string) {
	s.t.Helper()
	var told []string
	for _, word := range wire.said {
		if fired := word.GetFired(); fired != nil {
			told = append(told, fired.GetName())
		}
	}
	if !slices.Equal(told, names) {
		s.t.Fatalf("told of %q, expected %q", told, names)
	}
}

func TestFiredIsSentOnTheNextStream(t *testing.T) {
	s := newStreams(t)
	s.host.fired <- &agentv1.FailoverFired{Name: "wifi"}
	ended, _ := s.begin(io.EOF)
	if err := ended.tellFired(); err == nil {
		t.Fatal("an unsent message counts as sent")
	}
	next, wire := s.begin(nil)
	for range 2 {
		if err := next.tellFired(); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(wire, "wifi")
}

func TestFiredIsResentUntilALaterReportIsConfirmed(t *testing.T) {
	s := newStreams(t)
	first, _ := s.begin(nil)
	must(t, first.report()) // in flight first
	s.host.fired <- &agentv1.FailoverFired{Name: "wifi"}
	must(t, first.tellFired())
	first.acknowledge(first.sequence)
	second, wire := s.begin(nil)
	must(t, second.tellFired())
	s.expect(wire, "wifi")
	must(t, second.report())
	s.host.fired <- &agentv1.FailoverFired{Name: "lte"} // behind the report
	must(t, second.tellFired())
	second.acknowledge(second.sequence + 7) // of another report
	second.acknowledge(second.sequence)
	third, wire := s.begin(nil)
	must(t, third.tellFired())
	s.expect(wire, "lte")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
