// SPDX-License-Identifier: Apache-2.0

package caps

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"bicast/api/agentv1"
)

// paper has no sockets, and says of them what it is told to say.
type paper struct {
	caps    map[Pair]Bounds
	failing error
	swept   int
}

func (p *paper) Tend() error               { return nil }
func (p *paper) Renew(time.Duration) error { return nil }
func (p *paper) Capped() int               { return len(p.caps) }
func (p *paper) Close() error              { return nil }

func (p *paper) Sweep() (Tally, error) {
	if p.failing == nil {
		p.swept++
	}
	return Tally{}, p.failing
}

func (p *paper) Replace(caps map[Pair]Bounds) (changed bool, err error) {
	changed = len(caps) != len(p.caps)
	p.caps = caps
	return changed, nil
}

// holds is an executor with a program, which has been asked to begin so often.
func holds(p *paper) (executor *Executor, begun *int) {
	begun = new(int)
	begin := func() (Program, error) {
		*begun++
		return p, nil
	}
	return NewExecutor(Way{By: "paper", Begin: begin}, func(work func() error) error { return work() }, slog.New(slog.DiscardHandler)), begun
}

func orderOf(caps ...*agentv1.Cap) *agentv1.Caps { return &agentv1.Caps{Caps: caps, LeaseMs: 10_000} }

var one = &agentv1.Cap{TerminalAddress: "10.1.0.1", OtherAddress: "10.9.0.1", MostSegments: 10}

func TestAnOrderThatWaitsWhileTheHandEndsBeginsNothing(t *testing.T) {
	executor, begun := holds(&paper{})
	if _, err := executor.Order(orderOf(one)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	executor.Run(ctx)
	said, err := executor.Order(orderOf(one))
	if err == nil || *begun != 1 || executor.Report() != nil {
		t.Fatalf("%q, %v, begun %d times, %v: expected to be refused", said, err, *begun, executor.Report())
	}
}

func TestASweepThatFailedIsMadeAgainThoughNoCapIsLeft(t *testing.T) {
	p := &paper{}
	executor, _ := holds(p)
	if _, err := executor.Order(orderOf(one)); err != nil {
		t.Fatal(err)
	}
	p.failing = errors.New("no sweep")
	if said, err := executor.Order(orderOf()); err == nil {
		t.Fatalf("%q, expected to be told that sockets may still be held", said)
	}
	executor.tend() // fails, too
	p.failing, p.swept = nil, 0
	if _, err := executor.Order(orderOf()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		executor.tend()
	}
	if p.swept == 0 || p.swept > owedMost {
		t.Fatalf("%d sweeps, expected one that does what was left, and no more than %d", p.swept, owedMost)
	}
}
