// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/api/agentv1"
)

// A wire that has failed, or accepts all messages.
type fakeWire struct {
	Wire
	fails error
	said  []*agentv1.FromAgent
	hears []*agentv1.FromController // then the connection ends
}

func (f *fakeWire) Recv() (*agentv1.FromController, error) {
	if len(f.hears) == 0 {
		return nil, io.EOF
	}
	next := f.hears[0]
	f.hears = f.hears[1:]
	return next, nil
}

func (f *fakeWire) Close() error { return nil }

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

func (f firedHost) DistancesMeasured() <-chan *agentv1.DistancesMeasured { return nil }

func (f firedHost) Hello() *agentv1.Hello { return &agentv1.Hello{} }

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

func TestTheCauseOfAnEndDecidesTheNextAttempt(t *testing.T) {
	welcome := &agentv1.FromController{Payload: &agentv1.FromController_Welcome{Welcome: &agentv1.Welcome{Protocol: 1}}}
	for name, c := range map[string]struct {
		end             *agentv1.End // nil: none
		reason          string
		refused, barred bool
	}{
		"passing":    {&agentv1.End{Cause: agentv1.End_PASSING, Reason: "it stops"}, "it stops", false, false},
		"refused":    {&agentv1.End{Cause: agentv1.End_REFUSED, Reason: "no such site"}, "no such site", true, false},
		"credential": {&agentv1.End{Cause: agentv1.End_CREDENTIAL, Reason: "revoked"}, "revoked", true, true},
		"to come":    {&agentv1.End{Cause: 99, Reason: "of a later protocol"}, "of a later protocol", false, false},
		"none":       {nil, errEnded.Error(), false, false},
	} {
		var end []*agentv1.FromController
		if c.end != nil {
			end = append(end, &agentv1.FromController{Payload: &agentv1.FromController_End{End: c.end}})
		}
		for welcomed, hears := range [][]*agentv1.FromController{end, append([]*agentv1.FromController{welcome}, end...)} {
			for _, fails := range []error{nil, io.ErrClosedPipe} { // what was received before counts, too
				s := newStreams(t)
				s.session.Dial = func(context.Context) (Wire, error) { return &fakeWire{hears: hears, fails: fails}, nil }
				found := s.session.attempt(context.Background(), "")
				if found.err.Error() != c.reason || found.refused != c.refused || found.barred != c.barred || found.welcomed != (welcomed == 1) {
					t.Errorf("%s, welcomed %d, sends fail with %v: %+v, expected %+v", name, welcomed, fails, found, c)
				}
			}
		}
	}
}

func TestOnlyAMissingIdentityOfAllDialErrorsIsARefusal(t *testing.T) {
	for _, c := range []struct {
		err     error
		refused bool
	}{{noIdentity{io.EOF}, true}, {io.EOF, false}} {
		s := newStreams(t)
		s.session.Dial = func(context.Context) (Wire, error) { return nil, c.err }
		if found := s.session.attempt(context.Background(), ""); found.refused != c.refused || found.barred {
			t.Errorf("%T: %+v, expected refused to be %v", c.err, found, c.refused)
		}
	}
}

// Its kernel acknowledges data, so the connection stays open.
func TestAStreamEndsIfAReportStaysUnconfirmed(t *testing.T) {
	s := newStreams(t)
	live, wire := s.begin(nil)
	must(t, live.report())
	live.overdue = time.Now()
	if err := live.writeLoop(); err == nil || !strings.Contains(err.Error(), "not acknowledged report 1 within 15s") {
		t.Fatalf("the stream ends with %v, expected the unconfirmed report", err)
	}
	if len(wire.said) != 1 {
		t.Fatalf("%d messages were sent, expected one report", len(wire.said))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
