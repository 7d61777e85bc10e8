// SPDX-License-Identifier: Apache-2.0

// Package probing measures paths: it answers those who measure the paths to here, sends small packets along paths from here
// all the time, and probes one when that is ordered (docs/explanation/health.md, docs/how-to/measure.md).
//
//	Answer ─▶ a port for health, one for the probes of each session ─▶ Answering
//	Health ─▶ a sender for each path                                ─▶ PathHealth
//	Probe  ─▶ one path at a time                                    ─▶ Probed
//
// What is ordered takes the place of what was; what is the same goes on, with its socket and its counts. A port that is taken, or a
// device that is not there, is reported and tried again. Nothing of it outlives the agent.
package probing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/timestamping"
)

const tendEvery = 3 * time.Second

// Executor measures as a controller ordered.
type Executor struct {
	outside func(func() error) error // runs where the packets leave and come
	log     *slog.Logger
	tends   time.Duration // how often what cannot be is tried again
	now     func() clock.Instant

	alive   context.Context
	end     context.CancelFunc
	running sync.WaitGroup // probes
	probed  chan *agentv1.Probed

	mutex   sync.Mutex
	answers answers
	paths   paths
	probes  string // the path that is probed; empty: none is
}

// NewExecutor has nothing to do yet.
func NewExecutor(outside func(func() error) error, log *slog.Logger) *Executor {
	h := &Executor{
		outside: outside, log: log, tends: tendEvery, now: clock.Now, probed: make(chan *agentv1.Probed, 1),
		answers: newAnswers(log),
	}
	h.alive, h.end = context.WithCancel(context.Background())
	return h
}

// Probe tells why this kernel could not measure; nil where it stamps packets.
func Probe() error { return timestamping.Probe() }

// Run sees to what is ordered until the context ends, and then ends it.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, e.tends, e.tend)
	e.mutex.Lock()
	e.end()
	e.answers.end()
	e.paths = e.paths.next(nil, e.log)
	e.mutex.Unlock()
	e.running.Wait()
}

// Report is what the contract's has of measuring.
func (e *Executor) Report() (*agentv1.Answering, []*agentv1.PathHealth) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.answers.message(), e.paths.messages()
}

// Probed tells what came of probes.
func (e *Executor) Probed() <-chan *agentv1.Probed { return e.probed }

func (e *Executor) tend() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.answers.tend(e.outside)
	e.paths.tend(e.outside)
}

// part goes on until it ends.
type part struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func begin(work func(context.Context)) part {
	ctx, stop := context.WithCancel(context.Background())
	p := part{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		work(ctx)
	}()
	return p
}

func (p part) end() {
	p.stop()
	<-p.ended
}

func (p part) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
