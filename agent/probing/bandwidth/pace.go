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

// spin is how long before its time a packet is awaited without sleep. A processor that has just woken needs longer
// for each byte, which would look like the path.
const spin = 100 * time.Microsecond

// jitter is a share of the pause. Without it, packets could stay in step with other periodic traffic.
const jitter = 0.1

// pace schedules packets. Small delays do not add up, and two packets are never closer than the pause.
type pace struct {
	every  time.Duration
	random *rand.Rand
	due    time.Duration // the next packet, on the monotonic clock
	late   Lateness
}

// Lateness summarizes all packets of a run.
type Lateness struct {
	Packets int           // more than a tenth of the pause late
	Most    time.Duration // of any packet
}

// rest waits until the next packet is nearly due or the context ends: trains are seconds apart.
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

// await waits until the next packet is due.
func (p *pace) await() {
	sleepUntil(p.due - spin)
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

// sent schedules the next packet after a sending, which may have been delayed since the due time.
func (p *pace) sent() {
	p.after(clock.Monotonic(), p.every+time.Duration(p.random.Float64()*jitter*float64(p.every)), p.every)
}

// after schedules the next packet: while after the due time, and at least least from now.
func (p *pace) after(now, while, least time.Duration) {
	p.due = max(p.due+while, now+least)
}

func sleepUntil(at time.Duration) {
	timespec := unix.NsecToTimespec(int64(at))
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &timespec, nil), unix.EINTR) {
	}
}
