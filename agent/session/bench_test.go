// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bicast/agent/internal/controllertest"
	"bicast/agent/session"
	"bicast/agent/trust"
	"bicast/api/agentv1"
)

// The number of a probe or distance measurement that no stream of the test ordered.
const ofAnother = 99

// A host whose answers the test sets.
type fakeHost struct {
	now      atomic.Uint64 // content of reports
	reads    atomic.Uint64
	fired    chan *agentv1.FailoverFired
	probed   chan *agentv1.ProbeReport
	measured chan *agentv1.DistancesMeasured
	hold     chan struct{} // closing it executes orders; nil: at once
	slow     chan struct{} // the same for orders to intercept
	began    chan struct{}
	ended    chan error // nil if an order got the time that it took
}

func (f *fakeHost) Hello() *agentv1.Hello {
	return &agentv1.Hello{Protocol: session.Protocol, Role: agentv1.Role_ROLE_TERMINAL}
}

func (f *fakeHost) Report() (*agentv1.Report, error) {
	f.reads.Add(1)
	return &agentv1.Report{MonotonicUs: f.now.Load()}, nil
}

func (f *fakeHost) Obey(ctx context.Context, directive *agentv1.Directive) *agentv1.Result {
	if f.hold != nil {
		f.began <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
		f.ended <- ctx.Err()
	}
	if directive.GetIntercept() != nil && f.slow != nil {
		f.began <- struct{}{}
		<-f.slow
	}
	if directive.GetProbe() != nil {
		for _, over := range []uint64{ofAnother, directive.GetId(), directive.GetId()} { // at once, and again
			f.probed <- &agentv1.ProbeReport{Directive: over}
		}
	}
	if directive.GetMeasureDistances() != nil {
		f.measured <- &agentv1.DistancesMeasured{Directive: ofAnother}
		f.measured <- &agentv1.DistancesMeasured{Directive: directive.GetId()}
	}
	return &agentv1.Result{Done: directive.GetOrder() != nil, Answer: "obeyed"}
}

func (f *fakeHost) Fired() <-chan *agentv1.FailoverFired { return f.fired }

func (f *fakeHost) Probed() <-chan *agentv1.ProbeReport { return f.probed }

func (f *fakeHost) DistancesMeasured() <-chan *agentv1.DistancesMeasured { return f.measured }

func slowHost() *fakeHost {
	return &fakeHost{hold: make(chan struct{}), began: make(chan struct{}, 1), ended: make(chan error, 1)}
}

// logLines receives the lines of the session's log.
type logLines chan string

func (d logLines) Write(line []byte) (int, error) {
	d <- string(line)
	return len(line), nil
}

type agent struct {
	*fakeHost
	brain     *controllertest.Controller
	directory string // contains its identity
	said      logLines
	end       func()
}

func begin(t *testing.T) *agent {
	t.Helper()
	return beginAs(t, &fakeHost{
		fired: make(chan *agentv1.FailoverFired, 8), probed: make(chan *agentv1.ProbeReport, 8), measured: make(chan *agentv1.DistancesMeasured, 8),
	})
}

func beginAs(t *testing.T, host *fakeHost) *agent {
	t.Helper()
	a := &agent{fakeHost: host, brain: controllertest.New(t), said: make(logLines, 1024)}
	a.directory = a.brain.Directory("phone")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		log := slog.New(slog.NewTextHandler(a.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
		live := session.New(session.Dialer(a.directory), a.fakeHost, log)
		live.Identity = func() string { return trust.Stamp(a.directory) }
		live.Name = func() string { return trust.NameIn(a.directory) }
		live.Renew = func(certificate []byte) error { return trust.Renew(a.directory, certificate) }
		live.Run(ctx)
	}()
	a.end = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(controllertest.Patience):
			t.Error("the session does not end")
		}
	}
	t.Cleanup(a.end)
	return a
}

func prefer(id uint64) *agentv1.Directive {
	return &agentv1.Directive{Id: id, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{}}}
}

// A directive above the limit of a message.
func huge() *agentv1.FromController {
	path := &agentv1.Path{TerminalAddresses: []string{strings.Repeat("1", 3<<20)}}
	order := &agentv1.Directive{Id: 1, Order: &agentv1.Directive_Prefer{Prefer: &agentv1.Prefer{Path: path}}}
	return &agentv1.FromController{Payload: &agentv1.FromController_Directive{Directive: order}}
}

func probe(id uint64) *agentv1.Directive {
	return &agentv1.Directive{Id: id, Order: &agentv1.Directive_Probe{Probe: &agentv1.Probe{}}}
}

func reportEvery(id uint64, ms uint32) *agentv1.Directive {
	return &agentv1.Directive{Id: id, Order: &agentv1.Directive_ReportEvery{ReportEvery: &agentv1.ReportEvery{IntervalMs: ms}}}
}

// await returns the lines up to the first that contains all the words.
func (d logLines) await(t *testing.T, words ...string) []string {
	t.Helper()
	var lines []string
	patience := time.After(controllertest.Patience)
next:
	for {
		select {
		case line := <-d:
			lines = append(lines, line)
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue next
				}
			}
			return lines
		case <-patience:
			t.Fatalf("the log has no %q:\n%s", words, strings.Join(lines, ""))
		}
	}
}
