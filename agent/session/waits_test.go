// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"
)

func TestAgentsReconnectWithin3sAfterAControllerRestart(t *testing.T) {
	for _, chance := range []float64{0, 0.5, 0.999} {
		b := backoff{random: func() float64 { return chance }}
		b.wait(outcome{lived: time.Hour}) // the one that was lost
		for range 1000 {
			if wait := b.wait(outcome{}); wait > 2*time.Second {
				t.Fatalf("waits %v: with connecting that is too late", wait)
			}
		}
	}
}

func TestBackoffIsRandom(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 10 {
		b := backoff{random: func() float64 { return float64(i) / 10 }}
		seen[b.wait(outcome{lived: time.Hour})] = true
	}
	if len(seen) != 10 {
		t.Fatalf("10 agents wait %d different times, expected 10", len(seen))
	}
}

func TestBackoffGrowsIfTheControllerDiesAfterAccepting(t *testing.T) {
	b := backoff{random: func() float64 { return 0 }}
	first := b.wait(outcome{welcomed: true, lived: time.Millisecond})
	for range 10 {
		b.wait(outcome{welcomed: true, lived: time.Millisecond})
	}
	if last := b.wait(outcome{welcomed: true, lived: time.Millisecond}); last <= first {
		t.Fatalf("waits %v after ten times, expected more than the first %v", last, first)
	}
	if again := b.wait(outcome{welcomed: true, lived: steady}); again != first {
		t.Fatalf("waits %v after a good session, expected %v", again, first)
	}
}

func TestARefusedAgentRetriesSeldom(t *testing.T) {
	b := backoff{random: func() float64 { return 0 }}
	if wait := b.wait(outcome{refused: true}); wait < 10*time.Second {
		t.Fatalf("waits %v, expected 10 s at least", wait)
	}
	b.wait(outcome{})
	if wait := b.wait(outcome{}); wait > 2*time.Second {
		t.Fatalf("waits %v when it is no longer refused, expected 2 s at most", wait)
	}
}

func TestBackoffGrowsForARevokedCertificate(t *testing.T) {
	b := backoff{random: func() float64 { return 0.999 }}
	barred := outcome{refused: true, barred: true}
	b.wait(outcome{welcomed: true, lived: time.Hour})
	before := b.wait(barred)
	for range 3 {
		next := b.wait(barred)
		if next <= before {
			t.Fatalf("waits %v after %v, expected it to be longer each time", next, before)
		}
		before = next
	}
	for range 20 {
		before = b.wait(barred)
	}
	if before < 9*time.Minute || before > 10*time.Minute {
		t.Fatalf("waits %v at last, expected 10 min at most, and nearly so long", before)
	}
	b.wait(outcome{})
	if wait := b.wait(outcome{}); wait > 2*time.Second {
		t.Fatalf("waits %v when it is no longer refused, expected 2 s at most", wait)
	}
}

func TestReportsKeepTheirScheduleAndSkipMissedOnes(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := newPace(time.Second, start)
	for _, step := range []struct {
		sent, due int
		why       string
	}{
		{0, 1000, "the first is due at once"},
		{1007, 2000, "a little late changes nothing"},
		{5300, 6300, "one that was held up for seconds is followed by one an interval later, not by four"},
		{6300, 7300, "and the grid is a new one"},
	} {
		p.sent(at(step.sent))
		if !p.due.Equal(at(step.due)) {
			t.Fatalf("after %d ms due at %v, expected %d ms: %s", step.sent, p.due.Sub(start), step.due, step.why)
		}
	}
	p.change(100*time.Millisecond, at(6400))
	if !p.due.Equal(at(6500)) {
		t.Fatalf("a shorter interval makes it due at %v, expected 6500 ms", p.due.Sub(start))
	}
	p.change(time.Minute, at(6450))
	if !p.due.Equal(at(6500)) {
		t.Fatalf("a longer interval counts from the next report on, due at %v, expected 6500 ms", p.due.Sub(start))
	}
}

func TestAWelcomesIntervalIsBounded(t *testing.T) {
	for ms, expected := range map[uint32]time.Duration{
		0: time.Second, 1: shortestInterval, 500: 500 * time.Millisecond, 1<<32 - 1: longestInterval,
	} {
		if got := asked(ms); got != expected {
			t.Fatalf("%d ms becomes %v, expected %v", ms, got, expected)
		}
	}
}
