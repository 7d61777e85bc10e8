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

// Hand passes on what the controller knows of the sharers.
type Hand struct {
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

// NewHand tells local programs at a Unix socket.
func NewHand(socketPath string, within func(func() error) error, log *slog.Logger) *Hand {
	return &Hand{feed: newFeed(socketPath, log), within: within, log: log, ordered: make(chan struct{}, 1)}
}

// Govern names the cgroup (v2) whose programs' sockets take blocks as they are ordered; before Run.
func (h *Hand) Govern(cgroup string) { h.cgroup = cgroup }

// Order takes what an order of caps says of sharers and blocks; the same once more renews the lease. One that says
// nothing of them ends it.
func (h *Hand) Order(order *agentv1.Caps) error {
	lease := time.Duration(order.GetLeaseMs()) * time.Millisecond
	known := order.GetSharers() != 0 || order.GetBlockBytes() != 0
	switch {
	case !known:
		h.take(News{})
		return nil
	case lease < leastLease || lease > mostLease:
		return fmt.Errorf("a lease of %v, expected %v to %v", lease, leastLease, mostLease)
	case order.GetBlockBytes() > mostBlock:
		return fmt.Errorf("blocks of %d bytes, expected at most %d", order.GetBlockBytes(), mostBlock)
	}
	h.take(News{Sharers: order.GetSharers(), BlockBytes: order.GetBlockBytes(), Until: time.Now().Add(lease)})
	return nil
}

func (h *Hand) take(news News) {
	h.mutex.Lock()
	h.news = news
	h.mutex.Unlock()
	select {
	case h.ordered <- struct{}{}:
	default: // Run has not looked yet, and will see the newest
	}
}

// Run serves until the context ends, and then gives sockets back what they had.
func (h *Hand) Run(ctx context.Context) {
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		h.serve(ctx)
	}()
	h.keep(ctx)
	serving.Wait()
}

// serve waits for the place where another agent still is.
func (h *Hand) serve(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		err := h.feed.serve(ctx)
		if err != nil && err.Error() != said {
			said = err.Error()
			h.log.Warn("local programs are not told how many share the access point", "because", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

func (h *Hand) keep(ctx context.Context) {
	over := time.NewTimer(longest)
	defer over.Stop()
	for ctx.Err() == nil {
		news := h.current()
		h.feed.tell(news)
		h.hold(news)
		over.Reset(h.next(news))
		select {
		case <-h.ordered:
		case <-over.C:
		case <-ctx.Done():
		}
	}
	if h.program == nil {
		return
	}
	if err := h.program.close(); err != nil {
		h.log.Error("sockets were not all given back what they had before blocks were ordered", "because", err)
	}
	h.program = nil
}

// next is when there is something to do, unless an order comes.
func (h *Hand) next(news News) time.Duration {
	wait := longest
	if h.cgroup != "" && h.program == nil {
		wait = againAfter
	}
	if !news.Until.IsZero() {
		wait = min(wait, news.valid())
	}
	return wait
}

// current is nothing past the lease.
func (h *Hand) current() News {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.news.Until.IsZero() && !time.Now().Before(h.news.Until) {
		h.news = News{}
	}
	return h.news
}

// hold begins where it could not before, and says once why it cannot.
func (h *Hand) hold(news News) {
	if h.cgroup == "" {
		return
	}
	err := h.begin()
	if err == nil {
		err = h.program.hold(news.BlockBytes, news.valid())
	}
	switch {
	case err == nil:
		h.failure = ""
	case err.Error() != h.failure:
		h.failure = err.Error()
		h.log.Warn("programs write as much at once as they like", "cgroup", h.cgroup, "because", err)
	}
}

func (h *Hand) begin() (err error) {
	if h.program != nil {
		return nil
	}
	h.program, err = govern(h.cgroup, h.within)
	return err
}
