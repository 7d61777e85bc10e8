// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"io"
	"time"

	"bicast/internal/claim"
)

// claimTunnels claims the tunnels whose packets leave from this network namespace for one agent.
func claimTunnels(outside func(func() error) error) (mine io.Closer, err error) {
	err = outside(func() error {
		mine, err = claim.Take("tunnels", "has tunnels in this network namespace")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot have tunnels here: %w", err)
	}
	return mine, nil
}

// openShared opens what all tunnels share.
func (e *Executor) openShared() error {
	mine, err := claimTunnels(e.outside)
	if err != nil {
		return err
	}
	kernel, err := openKernel(e.outside, e.inside)
	if err != nil {
		return errors.Join(err, mine.Close())
	}
	unwatch, err := watch(e.outside, func() {
		select {
		case e.underlayChanged <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return errors.Join(err, kernel.close(), mine.Close())
	}
	begun := time.Now()
	e.release = func() error { return errors.Join(unwatch(), kernel.close(), mine.Close()) }
	e.host = &environment{
		kernel: kernel, outside: e.outside, inside: e.inside, private: e.private, searchEvery: e.searchEvery,
		now: func() time.Duration { return time.Since(begun) },
	}
	return nil
}

// removeAll removes all tunnels, also those of a killed agent, but none of a running agent.
func (e *Executor) removeAll() error {
	if e.host == nil {
		if err := e.openShared(); errors.Is(err, claim.ErrTaken) {
			return nil
		} else if err != nil {
			return err
		}
	}
	e.lead(false)
	failures := []error{e.host.kernel.removeHostRoutes()}
	for name, t := range e.tunnels {
		failures = append(failures, t.finish())
		delete(e.tunnels, name)
	}
	failures = append(failures, e.removeAllBut(nil))
	failures = append(failures, e.release())
	e.order, e.host, e.release, e.announced = nil, nil, nil, 0
	e.fitter.Fit(nil, 0)
	clear(e.leads)
	return errors.Join(failures...)
}
