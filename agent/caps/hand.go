package caps

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/counting"
)

const (
	sweepEvery = 200 * time.Millisecond
	byControl  = "congestion-control"
)

// Hand holds what a controller ordered of this host's sockets until the lease is over.
type Hand struct {
	within func(func() error) error // runs in the namespace of the host
	log    *slog.Logger

	mutex   sync.Mutex
	program *program  // nil: there was no cap yet
	until   time.Time // nothing is ordered after that
	ordered bool
	found   tally
	said    string // of what was found last
}

// NewHand has nothing to do yet.
func NewHand(within func(func() error) error, log *slog.Logger) *Hand {
	return &Hand{within: within, log: log}
}

// Probe tells why this kernel could not hold windows; nil where it takes the programs.
func Probe() error {
	p, err := load("bicast_probe")
	if err != nil {
		return err
	}
	return p.close()
}

// Order takes the place of the order before; the same once more renews the lease.
func (h *Hand) Order(order *agentv1.Caps) (string, error) {
	caps, lease, err := read(order)
	if err != nil {
		return "", err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := h.take(caps, lease); err != nil {
		return "", err
	}
	h.until, h.ordered = time.Now().Add(lease), true
	if len(caps) == 0 {
		return "windows are free", nil
	}
	return fmt.Sprintf("%s under %s", counting.Of(int(h.found.Held), "socket"), counting.Of(len(caps), "cap")), nil
}

// Run tends it until the context ends, and then lets every window go.
func (h *Hand) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			h.tend()
		case <-ctx.Done():
		}
	}
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
	return &agentv1.Capping{Hand: byControl, Held: h.found.Held}
}

// take puts caps in force. Under the mutex.
func (h *Hand) take(caps map[pair]bounds, lease time.Duration) error {
	if h.program == nil {
		if len(caps) == 0 {
			return nil
		}
		if err := h.within(func() (err error) {
			h.program, err = begin()
			return err
		}); err != nil {
			return err
		}
	}
	changed, err := h.program.replace(caps)
	if err != nil {
		return err
	}
	if err := h.program.renew(lease); err != nil {
		return err
	}
	if changed {
		return h.sweep()
	}
	return nil
}

func (h *Hand) tend() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.ordered && time.Now().After(h.until) {
		h.ordered = false
		if err := h.forget(); err != nil {
			h.log.Error("caps end by their lease alone", "because", err)
		}
		return
	}
	if h.program == nil || len(h.program.caps) == 0 {
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
	if _, err := h.program.replace(nil); err != nil {
		return err
	}
	return h.sweep()
}

func (h *Hand) end() {
	h.ordered = false
	if h.program == nil {
		return
	}
	if err := h.forget(); err != nil {
		h.log.Error("sockets keep a congestion control that does what cubic does", "because", err)
	}
	if err := h.program.close(); err != nil {
		h.log.Error("the programs that hold windows did not end well", "because", err)
	}
	h.program = nil
}

func (h *Hand) sweep() error {
	err := h.within(func() (err error) {
		h.found, err = h.program.sweep()
		return err
	})
	said := ""
	if h.found.Refused > 0 {
		said = unix.Errno(-h.found.Because).Error()
	}
	if said != "" && said != h.said {
		h.log.Warn("sockets do not take the congestion control", "sockets", h.found.Refused, "because", said)
	}
	h.said = said
	return err
}
