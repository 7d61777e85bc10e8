// SPDX-License-Identifier: Apache-2.0

// Package blocks tells the programs of this host how many terminals share the access point, and how much they had best
// write at once; and where a cgroup is named for it, has the sockets of that cgroup's programs take no more than that
// (bpf/blocks.bpf.c).
//
// It sets TCP_NOTSENT_LOWAT and nothing else: no send buffer is made smaller or larger.
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
	// DefaultSocket is where local programs ask.
	DefaultSocket = "/run/bicast-agent/sharers"

	leastLease = 500 * time.Millisecond // api/agent.proto
	mostLease  = 10 * time.Second
	mostBlock  = 8 << 20 // more than any program of the paper could write
	againAfter = 5 * time.Second
	longest    = time.Hour // to wait for, where there is nothing to do
)

// News is what is known of the access point.
type News struct {
	Sharers    uint32
	BlockBytes uint32
	Until      time.Time // by the monotonic clock; zero: nothing is known
}

// valid is for how long it still holds.
func (n News) valid() time.Duration {
	if n.Until.IsZero() {
		return 0
	}
	return max(0, time.Until(n.Until))
}

func (n News) alike(o News) bool {
	return n.Sharers == o.Sharers && n.BlockBytes == o.BlockBytes && n.Until.IsZero() == o.Until.IsZero()
}

// Executor passes on what the controller knows of the sharers.
type Executor struct {
	feed   *feed
	within func(func() error) error // runs in the network namespace of the host
	cgroup string                   // empty: no socket is touched
	log    *slog.Logger

	mutex   sync.Mutex
	news    News
	ordered chan struct{} // something is new

	program *program // nil: not yet, or the kernel does not take it
	failure string   // said already
}

// NewExecutor tells local programs at a Unix socket.
func NewExecutor(socketPath string, within func(func() error) error, log *slog.Logger) *Executor {
	return &Executor{feed: newFeed(socketPath, log), within: within, log: log, ordered: make(chan struct{}, 1)}
}

// Govern names the cgroup (v2) whose programs' sockets take blocks as they are ordered; before Run.
func (e *Executor) Govern(cgroup string) { e.cgroup = cgroup }

// Order takes what an order of caps says of sharers and blocks; the same once more renews the lease. One that says
// nothing of them ends it.
func (e *Executor) Order(order *agentv1.Caps) error {
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	known := order.GetSharers() != 0 || order.GetBlockBytes() != 0
	switch {
	case !known:
		e.take(News{})
		return nil
	case lease < leastLease || lease > mostLease:
		return fmt.Errorf("a lease of %v, expected %v to %v", lease, leastLease, mostLease)
	case order.GetBlockBytes() > mostBlock:
		return fmt.Errorf("blocks of %d bytes, expected at most %d", order.GetBlockBytes(), mostBlock)
	}
	e.take(News{Sharers: order.GetSharers(), BlockBytes: order.GetBlockBytes(), Until: time.Now().Add(lease)})
	return nil
}

func (e *Executor) take(news News) {
	e.mutex.Lock()
	e.news = news
	e.mutex.Unlock()
	select {
	case e.ordered <- struct{}{}:
	default: // Run has not looked yet, and will see the newest
	}
}

// Run serves until the context ends, and then gives sockets back what they had.
func (e *Executor) Run(ctx context.Context) {
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		e.serve(ctx)
	}()
	e.keep(ctx)
	serving.Wait()
}

// serve waits for the place where another agent still is.
func (e *Executor) serve(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		err := e.feed.serve(ctx)
		if err != nil && err.Error() != said {
			said = err.Error()
			e.log.Warn("local programs are not told how many share the access point", "because", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

func (e *Executor) keep(ctx context.Context) {
	over := time.NewTimer(longest)
	defer over.Stop()
	for ctx.Err() == nil {
		news := e.current()
		e.feed.tell(news)
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
		e.log.Error("sockets were not all given back what they had before blocks were ordered", "because", err)
	}
	e.program = nil
}

// next is when there is something to do, unless an order comes.
func (e *Executor) next(news News) time.Duration {
	wait := longest
	if e.cgroup != "" && e.program == nil {
		wait = againAfter
	}
	if !news.Until.IsZero() {
		wait = min(wait, news.valid())
	}
	return wait
}

// current is nothing past the lease.
func (e *Executor) current() News {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !e.news.Until.IsZero() && !time.Now().Before(e.news.Until) {
		e.news = News{}
	}
	return e.news
}

// hold begins where it could not before, and says once why it cannot.
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
		e.log.Warn("programs write as much at once as they like", "cgroup", e.cgroup, "because", err)
	}
}

func (e *Executor) begin() (err error) {
	if e.program != nil {
		return nil
	}
	e.program, err = govern(e.cgroup, e.within)
	return err
}
