// SPDX-License-Identifier: Apache-2.0

// Package session keeps one stream to the controller. It reopens the stream after every end, and no received message
// ends the agent.
package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"bicast/api/agentv1"
)

// Protocol is the version of api/agent.proto that this agent speaks.
const Protocol = 1

// Timeouts of the controller's welcome and of an order.
const (
	welcomeTimeout = 5 * time.Second
	orderTimeout   = 10 * time.Second
)

// Host is the host whose agent holds the session.
type Host interface {
	// Hello probes the host's capabilities again and returns them.
	Hello() *agentv1.Hello
	// Report reads the kernel now. The session numbers it.
	Report() (*agentv1.Report, error)
	// Obey executes an order, concurrently with those of other executors. It fills in everything except the directive's
	// number and the duration.
	Obey(ctx context.Context, directive *agentv1.Directive) *agentv1.Result
	// Fired returns armed failovers that fired. They wait here while no controller is connected.
	Fired() <-chan *agentv1.FailoverFired
	// Probed returns the outcomes of finished probe orders, each once.
	Probed() <-chan *agentv1.ProbeReport
	// DistancesMeasured delivers the results of finished MeasureDistances orders, each once.
	DistancesMeasured() <-chan *agentv1.DistancesMeasured
}

// Session is one agent's side of the contract.
type Session struct {
	Dial     func(context.Context) (Wire, error) // called for each attempt: the certificate may have changed
	Identity func() string                       // changes when joining has written a new identity; New: constant
	Name     func() string                       // the enrolled name; New: a placeholder for people to fill in
	Renew    func(certificate []byte) error      // keeps a new certificate of the controller; New: does not
	Host     Host
	Log      *slog.Logger

	workers workers

	wait        backoff
	lastEnd     string      // the end of the previous attempt, so that a long absence is logged once
	unconfirmed unconfirmed // fired failovers
	readFailure string      // the error of the previous reading
}

// New returns a session; Run starts it.
func New(dial func(context.Context) (Wire, error), host Host, log *slog.Logger) *Session {
	return &Session{
		Dial: dial, Identity: func() string { return "" }, Name: func() string { return "NAME" },
		Renew: func([]byte) error { return nil }, Host: host, Log: log, wait: newBackoff(),
	}
}

// Run keeps the stream until the context ends, and then waits for started orders.
func (s *Session) Run(ctx context.Context) {
	defer s.workers.alive.Wait()
	for ctx.Err() == nil {
		identity := s.Identity()
		outcome := s.attempt(ctx, identity)
		if ctx.Err() != nil {
			return
		}
		pause := s.wait.wait(outcome)
		s.logEnd(outcome, pause)
		if outcome.refused {
			s.sleepAs(ctx, identity, pause)
		} else {
			sleep(ctx, pause)
		}
	}
}

// outcome describes how a stream ended.
type outcome struct {
	err      error
	welcomed bool // the controller had sent its welcome
	lived    time.Duration
	refused  bool // by the controller, or this host has no identity: an early retry is useless
	barred   bool // refused, because our certificate is no longer valid there
}

func (s *Session) attempt(ctx context.Context, identity string) outcome {
	live := newStream(ctx, s)
	defer live.end(nil)
	go s.watch(live, identity)
	start := time.Now()
	err := live.run()
	var end ended
	errors.As(err, &end)
	return outcome{
		err: err, welcomed: live.welcomed, lived: time.Since(start),
		refused: end.cause == agentv1.End_REFUSED || end.cause == agentv1.End_CREDENTIAL || errors.As(err, &noIdentity{}),
		barred:  end.cause == agentv1.End_CREDENTIAL,
	}
}

func (s *Session) logEnd(outcome outcome, pause time.Duration) {
	text := outcome.err.Error()
	about := []any{"reason", text, "again_in", pause.Round(time.Millisecond)}
	if end := (ended{}); errors.As(outcome.err, &end) {
		about = append(about, "cause", end.cause.String())
	}
	if outcome.barred {
		text = "barred" // regardless of the text: later refusals have other texts
		about = append(about, "do", "`bicast enroll "+s.Name()+"` on the controller, then `bicast-agent join` on this host: the "+
			"running agent uses the new certificate at once")
	}
	level := slog.LevelWarn
	if text == s.lastEnd && !outcome.welcomed {
		level = slog.LevelDebug
	}
	s.lastEnd = text
	s.Log.Log(context.Background(), level, "no session with the controller", about...)
}

// report reads the kernel. It logs a failure once and then returns nil: no report is better than an empty one.
func (s *Session) report() *agentv1.Report {
	report, err := s.Host.Report()
	if err != nil {
		if err.Error() != s.readFailure {
			s.Log.Error("cannot read the kernel for a report", "reason", err)
		}
		s.readFailure = err.Error()
		return nil
	}
	s.readFailure = ""
	return report
}

// watch ends a stream when its host has a new certificate, which replaces the old one at once.
func (s *Session) watch(live *stream, identity string) {
	for live.ctx.Err() == nil {
		if now := s.Identity(); now != "" && now != identity {
			live.end(errNewCertificate)
			return
		}
		sleep(live.ctx, lookEvery)
	}
}

// sleepAs sleeps until the time is over or the host's identity changes.
func (s *Session) sleepAs(ctx context.Context, identity string, d time.Duration) {
	for end := time.Now().Add(d); ctx.Err() == nil && s.Identity() == identity; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		sleep(ctx, min(left, lookEvery))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended is the controller's last message.
type ended struct {
	cause  agentv1.End_Cause
	reason string
}

func (e ended) Error() string { return e.reason }

var errNoWelcome = errors.New("the controller accepted the connection but sent no welcome")

var errNewCertificate = errors.New("this host has a new certificate: reconnecting with it")
