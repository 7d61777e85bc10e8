// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

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

// listen is a gRPC stream interceptor.
func (t *tally) listen(
	ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, about, conn, method, options...)
	if err != nil {
		return nil, err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.streams++
	return &line{ClientStream: stream, tally: t}, nil
}

// A line is one stream. At most one report is unacknowledged.
type line struct {
	grpc.ClientStream
	tally *tally
	mutex sync.Mutex
	sent  time.Time // the unacknowledged report
}

func (l *line) SendMsg(message any) error {
	if word, is := message.(*agentv1.FromAgent); is && word.GetReport() != nil {
		l.mutex.Lock()
		l.sent = time.Now()
		l.mutex.Unlock()
	}
	return l.ClientStream.SendMsg(message)
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

func (l *line) RecvMsg(message any) error {
	if err := l.ClientStream.RecvMsg(message); err != nil {
		return err
	}
	word, is := message.(*agentv1.FromController)
	switch {
	case is && word.GetWelcome() != nil:
		select {
		case l.tally.welcome <- struct{}{}:
		default: // a reconnect
		}
	case is && word.GetAck() != nil:
		if took, is := l.since(true); is {
			l.tally.add(&l.tally.takings, took)
		}
	case is && word.GetDirective().GetPrefer() != nil: // orders arrive before the acknowledgement of their report
		if took, is := l.since(false); is {
			l.tally.add(&l.tally.decisions, took)
		}
	}
	return nil
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
