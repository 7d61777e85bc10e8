// SPDX-License-Identifier: Apache-2.0

// Package probing measures paths (docs/explanation/health.md, docs/how-to/measure.md). It answers other hosts that measure
// their paths to this host, sends small packets along this host's paths all the time, and probes a path on order.
//
//	Answer ─▶ one port for health, one for the probes of each session ─▶ Answering
//	Health ─▶ a sender for each path                                  ─▶ PathHealth
//	Probe  ─▶ one path at a time                                      ─▶ Probed
//
// A new order replaces the previous one. Unchanged items keep their socket and counters. A port in use or a missing device is
// reported and retried. Everything ends with the agent.
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

const retryInterval = 3 * time.Second

// Executor carries out the controller's measuring orders.
type Executor struct {
	outside    func(func() error) error // runs a function in the network namespace of the packets
	log        *slog.Logger
	retryEvery time.Duration // interval between retries
	now        func() clock.Instant

	alive   context.Context
	end     context.CancelFunc
	running sync.WaitGroup // probes
	probed  chan *agentv1.ProbeReport

	mutex   sync.Mutex
	answers answers
	paths   paths
	probes  string // name of the path being probed, or ""
}

// NewExecutor returns an executor without orders.
func NewExecutor(outside func(func() error) error, log *slog.Logger) *Executor {
	h := &Executor{
		outside: outside, log: log, retryEvery: retryInterval, now: clock.Now, probed: make(chan *agentv1.ProbeReport, 1),
		answers: newAnswers(log),
	}
	h.alive, h.end = context.WithCancel(context.Background())
	return h
}

// Probe returns the reason why this kernel cannot timestamp packets, or nil.
func Probe() error { return timestamping.Probe() }

// Run retries what failed until the context ends. Then it stops all measurements.
func (e *Executor) Run(ctx context.Context) {
	clock.Every(ctx, e.retryEvery, e.retry)
	e.mutex.Lock()
	e.end()
	e.answers.end()
	e.paths = e.paths.next(nil, e.log)
	e.mutex.Unlock()
	e.running.Wait()
}

// Report returns the measuring part of the agent's report.
func (e *Executor) Report() (*agentv1.Answering, []*agentv1.PathHealth) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.answers.message(), e.paths.messages()
}

// Probed delivers the results of probes.
func (e *Executor) Probed() <-chan *agentv1.ProbeReport { return e.probed }

func (e *Executor) retry() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.answers.retry(e.outside)
	e.paths.retry(e.outside)
}

// task is a goroutine that runs until it is stopped or ends on its own.
type task struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func begin(work func(context.Context)) task {
	ctx, stop := context.WithCancel(context.Background())
	p := task{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		work(ctx)
	}()
	return p
}

func (p task) end() {
	p.stop()
	<-p.ended
}

func (p task) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
