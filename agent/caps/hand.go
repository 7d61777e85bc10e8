// Package caps is what the executors that cap a terminal's own congestion windows have in common: how orders are read, renewed,
// and end, and the maps that their programs see. The executors are agent/caps/structops and, where the kernel does not load our
// congestion control, agent/caps/clamp. A gateway caps by agent/caps/receivewindow.
package caps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
)

const (
	tendEvery = 200 * time.Millisecond
	tendedFor = 5 * time.Second // an agent that is slow is not dead
	owedMost  = 2               // sweeps after a change: while the first goes on, a socket may be taken as it was before
)

// Way is how windows are held.
type Way struct {
	By     string // as api/agent.proto names it
	Begin  func() (Program, error)
	AtOnce bool   // and not with the first cap
	Lacks  string // what it cannot do, for who orders it
}

// Program holds the sockets of a namespace; its methods are called in that.
type Program interface {
	Capped() int
	Tend() error
	Replace(map[Pair]Bounds) (changed bool, err error)
	Renew(time.Duration) error
	Sweep() (Tally, error)
	Close() error
}

var errEnding = errors.New("the agent is ending")

// Hand holds what a controller ordered of this host's sockets until the lease is over.
type Hand struct {
	way    Way
	within func(func() error) error // runs in the namespace of the host
	log    *slog.Logger

	mutex   sync.Mutex
	program Program   // nil: it has not begun
	until   time.Time // nothing is ordered after that
	ordered bool
	over    bool // it ends, or has: nothing begins any more
	owed    int  // sweeps that must be, also where there are no caps any more
	found   Tally
	said    string // of what was found last
}

// NewHand has nothing to do yet.
func NewHand(way Way, within func(func() error) error, log *slog.Logger) *Hand {
	return &Hand{way: way, within: within, log: log}
}

// Order takes the place of the order before; the same once more renews the lease.
func (h *Hand) Order(order *agentv1.Caps) (string, error) {
	caps, lease, err := read(order)
	if err != nil {
		return "", err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.over {
		return "", errEnding
	}
	if err := h.take(caps, lease); err != nil {
		return "", err
	}
	h.until, h.ordered = time.Now().Add(lease), true
	if len(caps) == 0 {
		return "windows are free", nil
	}
	return fmt.Sprintf("%s under %s%s", plural.Of(int(h.found.Held), "socket"), plural.Of(len(caps), "cap"), h.way.Lacks), nil
}

// Run tends it until the context ends, and then lets every window go.
func (h *Hand) Run(ctx context.Context) {
	if h.way.AtOnce {
		h.early()
	}
	clock.Every(ctx, tendEvery, h.tend)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.end()
}

// Report is nil where nothing is ordered.
func (h *Hand) Report() *agentv1.Capping {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.ordered {
		return nil
	}
	return &agentv1.Capping{Hand: h.way.By, Held: h.found.Held}
}

// take puts caps in force. Under the mutex.
func (h *Hand) take(caps map[Pair]Bounds, lease time.Duration) error {
	if h.program == nil {
		if len(caps) == 0 {
			return nil
		}
		if err := h.begin(); err != nil {
			return err
		}
	}
	changed, err := h.replace(caps)
	if err != nil {
		return err
	}
	if err := h.program.Renew(lease); err != nil {
		return err
	}
	if changed {
		return h.sweep()
	}
	return nil
}

// replace owes sockets what has changed. Under the mutex.
func (h *Hand) replace(caps map[Pair]Bounds) (changed bool, err error) {
	changed, err = h.program.Replace(caps)
	if changed {
		h.owed = owedMost
	}
	return changed, err
}

// begin is called under the mutex.
func (h *Hand) begin() error {
	return h.within(func() error {
		program, err := h.way.Begin()
		if err != nil {
			return err
		}
		h.program = program
		return program.Tend()
	})
}

// early may fail: the first cap tries it again.
func (h *Hand) early() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.program != nil {
		return
	}
	if err := h.begin(); err != nil {
		h.log.Warn("windows cannot be held", "because", err)
	}
}

func (h *Hand) tend() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.program != nil {
		if err := h.program.Tend(); err != nil {
			h.log.Error("the programs that hold windows hear nothing of their agent", "because", err)
		}
	}
	if h.ordered && time.Now().After(h.until) {
		h.ordered = false
		if err := h.forget(); err != nil {
			h.log.Error("caps end by their lease alone", "because", err)
		}
		return
	}
	if h.program == nil || h.program.Capped() == 0 && h.owed == 0 {
		return
	}
	if err := h.sweep(); err != nil {
		h.log.Error("sockets cannot be seen to", "because", err)
	}
}

// forget gives every socket back. Under the mutex.
func (h *Hand) forget() error {
	if h.program == nil {
		return nil
	}
	if _, err := h.replace(nil); err != nil {
		return err
	}
	return h.sweep()
}

func (h *Hand) end() {
	h.over, h.ordered = true, false
	if h.program == nil {
		return
	}
	if err := h.forget(); err != nil {
		h.log.Error("sockets are let go by the end of the lease alone", "because", err)
	}
	if err := h.within(h.program.Close); err != nil {
		h.log.Error("the programs that hold windows did not end well", "because", err)
	}
	h.program = nil
}

func (h *Hand) sweep() error {
	err := h.within(func() (err error) {
		h.found, err = h.program.Sweep()
		return err
	})
	said := ""
	if h.found.Refused > 0 {
		said = unix.Errno(-h.found.Because).Error()
	}
	if said != "" && said != h.said {
		h.log.Warn("sockets are not held", "sockets", h.found.Refused, "because", said)
	}
	h.said = said
	if err == nil {
		h.owed = max(h.owed-1, 0)
	}
	return err
}
