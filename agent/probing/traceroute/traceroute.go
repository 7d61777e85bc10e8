// SPDX-License-Identifier: Apache-2.0

// Package traceroute measures round trips to destinations and finds the routers on the path. It sends ICMP echoes, some with a
// low TTL, and TCP SYNs where no echo returns. Packets follow this host's routes, so a gateway's path to the Internet may
// differ from that of an uplink.
//
// Routers limit the rate of their answers to a host. Many destinations behind one router get few answers.
package traceroute

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/clock"
)

const (
	packetEvery = time.Millisecond // for all destinations together
	pollEvery   = 20 * time.Millisecond
)

// tracer holds the sockets of one measurement.
type tracer struct {
	within func(func() error) error
	traces []*trace
	now    func() time.Duration
}

// trace is the measurement of one destination.
type trace struct {
	*measurement
	socket  *socket // nil if it could not be opened
	failure error   // why the socket could not be opened or could not send
	syns    []synProbe
}

// Measure measures all destinations. It returns when no more answers can come, or when the context ends. A few
// destinations take 3 s.
func Measure(ctx context.Context, within func(func() error) error, to []Target) []Distance {
	w := &tracer{within: within, now: clock.Monotonic}
	defer w.close()
	w.begin(to)
	for ctx.Err() == nil && !w.over() {
		w.hear(w.await())
		w.send()
	}
	var distances []Distance
	for _, each := range w.traces {
		distances = append(distances, each.found())
	}
	return distances
}

func (w *tracer) begin(to []Target) {
	began := w.now()
	for _, each := range to {
		l := &trace{measurement: newMeasurement(each, began)}
		l.failure = w.within(func() (err error) {
			l.socket, err = open(each.Address)
			return err
		})
		w.traces = append(w.traces, l)
	}
}

func (w *tracer) over() bool {
	now := w.now()
	for _, each := range w.traces {
		if !each.over(now) {
			return false
		}
	}
	return true
}

// await polls until a packet arrives or may be due.
func (w *tracer) await() []unix.PollFd {
	var asked []unix.PollFd
	for _, each := range w.traces {
		if each.socket != nil {
			asked = append(asked, unix.PollFd{Fd: int32(each.socket.fd), Events: unix.POLLIN})
		}
		for _, d := range each.syns {
			asked = append(asked, unix.PollFd{Fd: int32(d.fd), Events: unix.POLLOUT})
		}
	}
	pause := pollEvery
	for _, each := range w.traces {
		pause = min(pause, max(packetEvery, each.nextDue()-w.now()))
	}
	unix.Poll(asked, int(pause.Milliseconds())) // on EINTR no events are set
	return asked
}

func (w *tracer) hear(asked []unix.PollFd) {
	ready := map[int]bool{}
	for _, each := range asked {
		ready[int(each.Fd)] = each.Revents != 0
	}
	for _, each := range w.traces {
		if each.socket != nil && ready[each.socket.fd] {
			for _, one := range each.socket.hear() {
				each.answer(one.number, one.word, one.from, w.now()-one.age)
			}
		}
		var waiting []synProbe
		for _, d := range each.syns {
			if !ready[d.fd] {
				waiting = append(waiting, d)
				continue
			}
			now := w.now()
			if age, ok := d.answered(each.probes[d.number].sent, now); ok {
				each.answer(d.number, reached, each.to.Address, now-age)
			}
			d.close()
		}
		each.syns = waiting
	}
}

// send sends one packet, for the trace that has waited longest, so that none falls far behind.
func (w *tracer) send() {
	var first *trace
	for _, each := range w.traces {
		if _, due := each.next(w.now()); due && (first == nil || each.nextDue() < first.nextDue()) {
			first = each
		}
	}
	if first == nil {
		return
	}
	number, _ := first.next(w.now())
	first.sending(number, w.now())
	if err := w.put(first, number); err != nil {
		first.failure = err
	}
}

func (w *tracer) put(l *trace, number int) error {
	p := l.probes[number]
	if p.kind != tcpSYN {
		if l.socket == nil {
			return l.failure
		}
		return l.socket.send(number, p.hops)
	}
	return w.within(func() error {
		d, err := probeSYN(netip.AddrPortFrom(l.to.Address, l.to.Port), number)
		if err == nil {
			l.syns = append(l.syns, d)
		}
		return err
	})
}

// found reports a local failure if that explains why nothing was measured.
func (l *trace) found() Distance {
	measurement := l.measurement.found()
	if measurement.Reason != "" && l.failure != nil && !errors.Is(l.failure, unix.EHOSTUNREACH) {
		return Distance{Reason: "cannot send packets there: " + l.failure.Error()}
	}
	return measurement
}

func (w *tracer) close() {
	for _, each := range w.traces {
		if each.socket != nil {
			each.socket.close()
		}
		for _, d := range each.syns {
			d.close()
		}
	}
}
