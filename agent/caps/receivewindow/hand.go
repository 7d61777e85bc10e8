package receivewindow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
	"bicast/internal/portstate"
)

const (
	tendEvery = time.Second
	handName  = "window"
	lifted    = 2 * time.Second // by when windows are their receivers' own again (bpf/window.bpf.c)
)

var errEnding = errors.New("the agent is ending")

// Hand keeps what a controller ordered of caps at the ports where terminals are, as long as these are there.
type Hand struct {
	within func(func() error) error // runs in the namespace of the ports
	log    *slog.Logger
	attach attacher // nil: as the kernel can

	mutex    sync.Mutex
	wanted   []string // ports
	programs *programs
	ports    *ports
	missing  portstate.Ports // of the ports: why there is no program; nil where it stands
	ending   time.Time       // of the programs, when nothing is ordered any more
	over     bool            // it ends, or has: nothing begins any more
}

// NewHand has nothing to do yet.
func NewHand(within func(func() error) error, log *slog.Logger) *Hand {
	return &Hand{within: within, log: log}
}

// Order takes the place of the order before; the same once more renews its lease. Without caps and ports everything ends.
func (h *Hand) Order(order *agentv1.Caps) (string, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.over {
		return "", errEnding
	}
	if len(order.GetCaps()) == 0 && len(order.GetPorts()) == 0 {
		return "no window is lowered", h.lift()
	}
	if err := check(order); err != nil {
		return "", err
	}
	caps, err := capsOf(order)
	if err != nil {
		return "", err
	}
	if err := h.begin(); err != nil {
		return "", err
	}
	h.ending = time.Time{}
	if err := h.programs.hold(caps, leaseOf(order)); err != nil {
		return "", err
	}
	if !slices.Equal(h.wanted, order.GetPorts()) {
		h.wanted = slices.Clone(order.GetPorts())
		h.tend()
	}
	// Where the others stand the order is obeyed; that one does not, reports say.
	if missing := h.without(); len(missing) > 0 && len(missing) == len(h.wanted) {
		return "", fmt.Errorf("%s: %s", missing[0].GetPort(), missing[0].GetBecause())
	}
	return fmt.Sprintf("windows are lowered for %s at %s", plural.Of(len(caps), "pair"), plural.Of(len(h.wanted), "port")), nil
}

// Run sees to the ports until the context ends, and then lets everything pass as it is.
func (h *Hand) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, h.Tend)
	if err := h.end(); err != nil {
		h.log.Error("the programs that lower windows did not end well", "because", err)
	}
}

// end takes as long as windows take that were lowered.
func (h *Hand) end() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.over = true
	err := h.lift()
	if h.programs == nil {
		return err
	}
	time.Sleep(time.Until(h.ending))
	return errors.Join(err, h.let())
}

// lift ends caps, and everything as soon as nothing is held back any more.
func (h *Hand) lift() error {
	if h.programs == nil || !h.ending.IsZero() {
		return nil
	}
	if !h.programs.holds() {
		return h.let()
	}
	h.ending = time.Now().Add(lifted)
	return h.programs.hold(nil, 0)
}

// Tend looks for the ports, which may have gone and come back, and forgets connections that have ended.
func (h *Hand) Tend() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.programs == nil {
		return
	}
	if !h.ending.IsZero() && time.Now().After(h.ending) {
		if err := h.let(); err != nil {
			h.log.Warn("the programs that lower windows did not end well", "because", err)
		}
		return
	}
	h.tend()
	if err := h.programs.forget(); err != nil {
		h.log.Warn("connections that have ended are not forgotten", "because", err)
	}
}

// Report is nil where nothing is ordered.
func (h *Hand) Report() *agentv1.Capping {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.programs == nil || !h.ending.IsZero() {
		return nil
	}
	report := &agentv1.Capping{Hand: handName, Missing: h.without()}
	passing, held, err := h.programs.passing()
	if err != nil {
		report.Missing = append(report.Missing, &agentv1.Missing{Port: "all", Because: err.Error()})
	}
	report.Passing, report.Held = passing, uint32(held)
	return report
}

func (h *Hand) begin() error {
	if h.programs != nil {
		return nil
	}
	programs, err := load()
	if err != nil {
		return err
	}
	h.programs, h.ports = programs, newPorts(programs, h.attach)
	h.wanted, h.missing = nil, portstate.Ports{}
	return nil
}

func (h *Hand) let() error {
	if h.programs == nil {
		return nil
	}
	err := errors.Join(h.within(h.ports.close), h.programs.close())
	h.programs, h.ports, h.wanted, h.missing, h.ending = nil, nil, nil, nil, time.Time{}
	return err
}

// Under the mutex.
func (h *Hand) tend() {
	err := h.within(func() error {
		for port := range h.missing {
			if !slices.Contains(h.wanted, port) {
				delete(h.missing, port)
				if err := h.ports.leave(port); err != nil {
					h.log.Warn("the programs that lower windows did not leave a port well", "port", port, "because", err)
				}
			}
		}
		for _, port := range h.wanted {
			h.found(port, h.ports.stand(port))
		}
		return nil
	})
	if err == nil {
		return
	}
	for _, port := range h.wanted {
		h.found(port, err)
	}
}

// found says once what has changed.
func (h *Hand) found(port string, err error) {
	h.missing.Found(port, err, h.log, portstate.Words{Lost: "windows pass as they are here", Back: "the port of terminals is there"})
}

func (h *Hand) without() []*agentv1.Missing {
	var missing []*agentv1.Missing
	for _, port := range slices.Sorted(slices.Values(h.wanted)) {
		if err := h.missing[port]; err != nil {
			missing = append(missing, &agentv1.Missing{Port: port, Because: err.Error()})
		}
	}
	return missing
}
