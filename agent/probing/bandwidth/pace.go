// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/clock"
)

// awake is for how long before its time a packet is awaited by a processor that does not sleep: one that has just woken
// takes longer for each byte, and that would look like the path.
const awake = 100 * time.Microsecond

// jitter is a part of the pause: packets that come at the beat of something else always meet it, or never.
const jitter = 0.1

// pace says when the next is due: by its own clock, so that being a little late adds up to nothing, and never closer to the
// one before than was asked.
type pace struct {
	every  time.Duration
	random *rand.Rand
	due    time.Duration // the next, on the monotonic clock
	late   Lateness
}

// Lateness is of all packets of a run.
type Lateness struct {
	Packets int           // that left more than a tenth of the pause late
	Most    time.Duration // of any
}

// rest returns when the next is nearly due, or nobody wants it any more: from one train to the next are seconds.
func (p *pace) rest(ctx context.Context) {
	left := p.due - nearly - clock.Monotonic()
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// await returns when the next is due.
func (p *pace) await() {
	sleepUntil(p.due - awake)
	now := clock.Monotonic()
	for now < p.due {
		now = clock.Monotonic()
	}
	late := now - p.due
	p.late.Most = max(p.late.Most, late)
	if late > p.every/10 {
		p.late.Packets++
	}
}

// sent reckons when the one after it is: between becoming due and being sent, a processor may have been taken away.
func (p *pace) sent() {
	p.after(clock.Monotonic(), p.every+time.Duration(p.random.Float64()*jitter*float64(p.every)), p.every)
}

// after is when something that took place now is followed by the next: a while after it was due, and at least so long after it was.
func (p *pace) after(now, while, least time.Duration) {
	p.due = max(p.due+while, now+least)
}

func sleepUntil(at time.Duration) {
	wanted := unix.NsecToTimespec(int64(at))
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wanted, nil), unix.EINTR) {
	}
}
