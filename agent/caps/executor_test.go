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

// fakeProgram has no sockets and returns prepared tallies.
type fakeProgram struct {
	caps    map[Pair]Bounds
	failing error
	swept   int
}

func (p *fakeProgram) Heartbeat() error          { return nil }
func (p *fakeProgram) Renew(time.Duration) error { return nil }
func (p *fakeProgram) Capped() int               { return len(p.caps) }
func (p *fakeProgram) Close() error              { return nil }

func (p *fakeProgram) Sweep() (Tally, error) {
	if p.failing == nil {
		p.swept++
	}
	return Tally{}, p.failing
}

func (p *fakeProgram) Replace(caps map[Pair]Bounds) (changed bool, err error) {
	changed = len(caps) != len(p.caps)
	p.caps = caps
	return changed, nil
}

// holds returns an executor with a program, and counts the calls of Begin.
func holds(p *fakeProgram) (executor *Executor, begun *int) {
	begun = new(int)
	begin := func() (Program, error) {
		*begun++
		return p, nil
	}
	return NewExecutor(Method{By: "paper", Begin: begin}, func(work func() error) error { return work() }, slog.New(slog.DiscardHandler)), begun
}

func orderOf(caps ...*agentv1.Cap) *agentv1.Caps { return &agentv1.Caps{Caps: caps, LeaseMs: 10_000} }

var one = &agentv1.Cap{TerminalAddress: "10.1.0.1", OtherAddress: "10.9.0.1", MostSegments: 10}

func TestOrderFailsOnceTheExecutorHasEnded(t *testing.T) {
	executor, begun := holds(&fakeProgram{})
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

func TestSweepIsRetriedWithoutCaps(t *testing.T) {
	p := &fakeProgram{}
	executor, _ := holds(p)
	if _, err := executor.Order(orderOf(one)); err != nil {
		t.Fatal(err)
	}
	p.failing = errors.New("no sweep")
	if said, err := executor.Order(orderOf()); err == nil {
		t.Fatalf("the order returns %q, expected an error: sockets may still have caps", said)
	}
	executor.tick() // fails again
	p.failing, p.swept = nil, 0
	if _, err := executor.Order(orderOf()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		executor.tick()
	}
	if p.swept == 0 || p.swept > sweepsAfterChange {
		t.Fatalf("%d sweeps, expected one for the rest, and at most %d", p.swept, sweepsAfterChange)
	}
}
