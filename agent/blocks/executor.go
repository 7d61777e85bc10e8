// SPDX-License-Identifier: Apache-2.0

// Package blocks tells local programs how many terminals share the access point and how much to write at once. For a named
// cgroup, it also limits the unsent data of the sockets to that size (bpf/blocks.bpf.c).
//
// It only sets TCP_NOTSENT_LOWAT. Send buffers keep their size.
package blocks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"bicast/api/agentv1"
)

const (
	// DefaultSocket is the Unix socket for local programs.
	DefaultSocket = "/run/bicast-agent/sharers"

	minLease      = 500 * time.Millisecond // api/agent.proto
	maxLease      = 10 * time.Second
	maxBlock      = 8 << 20 // more than any program in the paper writes at once
	retryInterval = 5 * time.Second
	idleInterval  = time.Hour // wake-up interval without anything to do
)

// News is the state of the access point.
type News struct {
	Sharers    uint32
	BlockBytes uint32
	Until      time.Time // on the monotonic clock; zero: unknown
}

// valid returns the remaining validity.
func (n News) valid() time.Duration {
	if n.Until.IsZero() {
		return 0
	}
	return max(0, time.Until(n.Until))
}

func (n News) equal(o News) bool {
	return n.Sharers == o.Sharers && n.BlockBytes == o.BlockBytes && n.Until.IsZero() == o.Until.IsZero()
}

// Executor publishes the controller's number of sharers and applies its block size.
type Executor struct {
	feed   *feed
	within func(func() error) error // runs a function in the host's network namespace
	cgroup string                   // empty: no socket is changed
	log    *slog.Logger

	mutex   sync.Mutex
	news    News
	ordered chan struct{} // signals new news

	program *program // nil before begin, or if the kernel does not load it
	failure string   // last logged failure
}

// NewExecutor returns an executor that serves local programs at a Unix socket.
func NewExecutor(socketPath string, within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{feed: newFeed(socketPath, log), within: within, log: log, ordered: make(chan struct{}, 1)}
}

// Govern names the cgroup (v2) whose sockets get the block size. Call it before Run.
func (e *Executor) Govern(cgroup string) { e.cgroup = cgroup }

// Order takes the sharers and blocks of an order. The same order again renews the lease. An order without both ends
// it.
func (e *Executor) Order(order *agentv1.Caps) error {
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	known := order.GetSharers() != 0 || order.GetBlockBytes() != 0
	switch {
	case !known:
		e.setNews(News{})
		return nil
	case lease < minLease || lease > maxLease:
		return fmt.Errorf("a lease of %v, expected %v to %v", lease, minLease, maxLease)
	case order.GetBlockBytes() > maxBlock:
		return fmt.Errorf("blocks of %d bytes, expected at most %d", order.GetBlockBytes(), maxBlock)
	}
	e.setNews(News{Sharers: order.GetSharers(), BlockBytes: order.GetBlockBytes(), Until: time.Now().Add(lease)})
	return nil
}

func (e *Executor) setNews(news News) {
	e.mutex.Lock()
	e.news = news
	e.mutex.Unlock()
	select {
	case e.ordered <- struct{}{}:
	default: // Run has not handled the last signal and will see the newest news
	}
}

// Run serves until the context ends, then restores the sockets.
func (e *Executor) Run(ctx context.Context) {
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		e.serve(ctx)
	}()
	e.maintain(ctx)
	serving.Wait()
}

// serve retries while another agent has the socket.
func (e *Executor) serve(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		err := e.feed.serve(ctx)
		if err != nil && err.Error() != logged {
			logged = err.Error()
			e.log.Warn("cannot serve the number of sharers to local programs", "reason", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

func (e *Executor) maintain(ctx context.Context) {
	over := time.NewTimer(idleInterval)
	defer over.Stop()
	for ctx.Err() == nil {
		news := e.current()
		e.feed.publish(news)
		e.hold(news)
		over.Reset(e.next(news))
		select {
		case <-e.ordered:
		case <-over.C:
		case <-ctx.Done():
		}
	}
	if e.program == nil {
		return
	}
	if err := e.program.close(); err != nil {
		e.log.Error("cannot restore TCP_NOTSENT_LOWAT of all sockets", "reason", err)
	}
	e.program = nil
}

// next returns the time until the next retry or the end of the lease.
func (e *Executor) next(news News) time.Duration {
	wait := idleInterval
	if e.cgroup != "" && e.program == nil {
		wait = retryInterval
	}
	if !news.Until.IsZero() {
		wait = min(wait, news.valid())
	}
	return wait
}

// current returns empty news after the lease.
func (e *Executor) current() News {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !e.news.Until.IsZero() && !time.Now().Before(e.news.Until) {
		e.news = News{}
	}
	return e.news
}

// hold loads the program if needed and applies the block size. It logs each failure once.
func (e *Executor) hold(news News) {
	if e.cgroup == "" {
		return
	}
	err := e.begin()
	if err == nil {
		err = e.program.hold(news.BlockBytes, news.valid())
	}
	switch {
	case err == nil:
		e.failure = ""
	case err.Error() != e.failure:
		e.failure = err.Error()
		e.log.Warn("cannot limit the unsent data of a cgroup's sockets", "cgroup", e.cgroup, "reason", err)
	}
}

func (e *Executor) begin() (err error) {
	if e.program != nil {
		return nil
	}
	e.program, err = govern(e.cgroup, e.within)
	return err
}
