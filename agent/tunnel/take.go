package tunnel

import (
	"errors"
	"fmt"
	"io"
	"time"

	"bicast/internal/claim"
)

// alone is a claim: no other agent has tunnels whose packets leave by this network namespace.
func alone(outside func(func() error) error) (mine io.Closer, err error) {
	err = outside(func() error {
		mine, err = claim.Take("tunnels", "has tunnels in this network namespace")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("no tunnels can be had here: %w", err)
	}
	return mine, nil
}

// take is what is needed before there is any tunnel.
func (h *Hand) take() error {
	mine, err := alone(h.outside)
	if err != nil {
		return err
	}
	kernel, err := openKernel(h.outside, h.inside)
	if err != nil {
		return errors.Join(err, mine.Close())
	}
	unwatch, err := watch(h.outside, func() {
		select {
		case h.stirred <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return errors.Join(err, kernel.close(), mine.Close())
	}
	begun := time.Now()
	h.release = func() error { return errors.Join(unwatch(), kernel.close(), mine.Close()) }
	h.host = &surroundings{
		kernel: kernel, pins: pins{h.outside}, outside: h.outside, inside: h.inside, looks: h.looks,
		now: func() time.Duration { return time.Since(begun) },
	}
	return nil
}

// let takes everything away, also what an agent left that was killed; but nothing of one that lives.
func (h *Hand) let() error {
	if h.host == nil {
		if err := h.take(); errors.Is(err, claim.ErrTaken) {
			return nil
		} else if err != nil {
			return err
		}
	}
	var failures []error
	for name, t := range h.tunnels {
		failures = append(failures, t.finish())
		delete(h.tunnels, name)
	}
	failures = append(failures, h.removeAllBut(nil))
	if h.host.pins.stand() {
		failures = append(failures, h.host.pins.remove())
	}
	failures = append(failures, h.release())
	h.order, h.host, h.release, h.strangers, h.fitted = nil, nil, nil, nil, 0
	h.fitter.Fit(nil, 0)
	return errors.Join(failures...)
}
