// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"bicast/agent/session"
	"bicast/api/agentv1"
)

// A tally measures the time from a report to the controller's answers.
type tally struct {
	welcome chan struct{}

	mutex     sync.Mutex
	takings   []time.Duration
	decisions []time.Duration
	streams   int
}

type summary struct {
	Streams  int       `json:"streams"` // one per host, unless the controller ended some
	TakenMs  []float64 `json:"taken_ms"`
	DecideMs []float64 `json:"decided_ms"`
}

// listen returns dial with wires that report to the tally.
func (t *tally) listen(dial func(context.Context) (session.Wire, error)) func(context.Context) (session.Wire, error) {
	return func(ctx context.Context) (session.Wire, error) {
		wire, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		t.mutex.Lock()
		defer t.mutex.Unlock()
		t.streams++
		return &line{Wire: wire, tally: t}, nil
	}
}

// A line is one stream. At most one report is unacknowledged.
type line struct {
	session.Wire
	tally *tally
	mutex sync.Mutex
	sent  time.Time // the unacknowledged report
}

func (l *line) Send(word *agentv1.FromAgent) error {
	if word.GetReport() != nil {
		l.mutex.Lock()
		l.sent = time.Now()
		l.mutex.Unlock()
	}
	return l.Wire.Send(word)
}

// since returns the time since the unacknowledged report, if there is one.
func (l *line) since(taken bool) (time.Duration, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	sent := l.sent
	if taken {
		l.sent = time.Time{}
	}
	return time.Since(sent), !sent.IsZero()
}

func (l *line) Recv() (*agentv1.FromController, error) {
	word, err := l.Wire.Recv()
	switch {
	case word.GetWelcome() != nil:
		select {
		case l.tally.welcome <- struct{}{}:
		default: // a reconnect
		}
	case word.GetAck() != nil:
		if took, is := l.since(true); is {
			l.tally.add(&l.tally.takings, took)
		}
	case word.GetDirective().GetPrefer() != nil: // orders arrive before the acknowledgement of their report
		if took, is := l.since(false); is {
			l.tally.add(&l.tally.decisions, took)
		}
	}
	return word, err
}

func (t *tally) add(to *[]time.Duration, took time.Duration) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	*to = append(*to, took)
}

// forget drops measurements from before all agents were welcome.
func (t *tally) forget() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.takings, t.decisions = nil, nil
}

func (t *tally) summary() summary {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return summary{t.streams, inMs(t.takings), inMs(t.decisions)}
}

func inMs(all []time.Duration) []float64 {
	found := make([]float64, len(all))
	for at, one := range slices.Sorted(slices.Values(all)) {
		found[at] = float64(one.Microseconds()) / 1000
	}
	return found
}
