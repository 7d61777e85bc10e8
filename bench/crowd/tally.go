package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"bicast/api/agentv1"
)

// How long it took from a report to what the controller said of it.
type tally struct {
	welcome chan struct{}

	mutex     sync.Mutex
	takings   []time.Duration
	decisions []time.Duration
	streams   int
}

type summary struct {
	Streams  int       `json:"streams"` // one for each host, unless some were ended
	TakenMs  []float64 `json:"taken_ms"`
	DecideMs []float64 `json:"decided_ms"`
}

// listen is gRPC's word for somebody on the line.
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

// One stream. One goroutine sends and another receives, and never is more than one report under way.
type line struct {
	grpc.ClientStream
	tally *tally
	mutex sync.Mutex
	sent  time.Time
}

func (l *line) SendMsg(message any) error {
	if word, is := message.(*agentv1.FromAgent); is && word.GetReport() != nil {
		l.mutex.Lock()
		l.sent = time.Now()
		l.mutex.Unlock()
	}
	return l.ClientStream.SendMsg(message)
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
		default: // somebody came again
		}
	case is && word.GetTaken() != nil:
		l.mutex.Lock()
		took := time.Since(l.sent)
		l.mutex.Unlock()
		l.tally.mutex.Lock()
		l.tally.takings = append(l.tally.takings, took)
		l.tally.mutex.Unlock()
	}
	return nil
}

func (t *tally) decided(took time.Duration) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.decisions = append(t.decisions, took)
}

// forget what was before all were here.
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
