// SPDX-License-Identifier: Apache-2.0

// Package traceroute measures the round trips to destinations and finds the routers on the way: by echoes of ICMP, of which
// some go only as far as a router, and by TCP where no echo comes back. Packets go as this host's routes say: a gateway's own
// way into the Internet need not be that of an uplink.
//
// Routers answer a host some times a second and no more: for many destinations behind the same one few answers are left.
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
	packetEvery = time.Millisecond // of all destinations together
	looksEvery  = 20 * time.Millisecond
)

// walker has the sockets of a walk.
type walker struct {
	within func(func() error) error
	legs   []*leg
	now    func() time.Duration
}

// leg is one destination's part.
type leg struct {
	*way
	socket  *socket // nil: there is none
	trouble error   // why, or why nothing can be sent
	syns    []synProbe
}

// Walk ends when all is known that can be, some 3 s after it began where few are asked for, or when the context does.
func Walk(ctx context.Context, within func(func() error) error, to []To) []Way {
	w := &walker{within: within, now: clock.Monotonic}
	defer w.close()
	w.begin(to)
	for ctx.Err() == nil && !w.over() {
		w.hear(w.await())
		w.send()
	}
	var ways []Way
	for _, each := range w.legs {
		ways = append(ways, each.found())
	}
	return ways
}

func (w *walker) begin(to []To) {
	began := w.now()
	for _, each := range to {
		l := &leg{way: newWay(each, began)}
		l.trouble = w.within(func() (err error) {
			l.socket, err = open(each.Address)
			return err
		})
		w.legs = append(w.legs, l)
	}
}

func (w *walker) over() bool {
	now := w.now()
	for _, each := range w.legs {
		if !each.over(now) {
			return false
		}
	}
	return true
}

// await waits until something comes, or may be due.
func (w *walker) await() []unix.PollFd {
	var asked []unix.PollFd
	for _, each := range w.legs {
		if each.socket != nil {
			asked = append(asked, unix.PollFd{Fd: int32(each.socket.fd), Events: unix.POLLIN})
		}
		for _, d := range each.syns {
			asked = append(asked, unix.PollFd{Fd: int32(d.fd), Events: unix.POLLOUT})
		}
	}
	pause := looksEvery
	for _, each := range w.legs {
		pause = min(pause, max(packetEvery, each.soon()-w.now()))
	}
	unix.Poll(asked, int(pause.Milliseconds())) // which may be interrupted: then nothing has come
	return asked
}

func (w *walker) hear(asked []unix.PollFd) {
	stirs := map[int]bool{}
	for _, each := range asked {
		stirs[int(each.Fd)] = each.Revents != 0
	}
	for _, each := range w.legs {
		if each.socket != nil && stirs[each.socket.fd] {
			for _, one := range each.socket.hear() {
				each.answer(one.number, one.word, one.from, w.now()-one.age)
			}
		}
		var shut []synProbe
		for _, d := range each.syns {
			if !stirs[d.fd] {
				shut = append(shut, d)
				continue
			}
			now := w.now()
			if age, so := d.answered(each.probes[d.number].sent, now); so {
				each.answer(d.number, here, each.to.Address, now-age)
			}
			d.close()
		}
		each.syns = shut
	}
}

// send is of one packet, that of who has waited longest: so none is far behind.
func (w *walker) send() {
	var first *leg
	for _, each := range w.legs {
		if _, due := each.next(w.now()); due && (first == nil || each.soon() < first.soon()) {
			first = each
		}
	}
	if first == nil {
		return
	}
	number, _ := first.next(w.now())
	first.sending(number, w.now())
	if err := w.put(first, number); err != nil {
		first.trouble = err
	}
}

func (w *walker) put(l *leg, number int) error {
	p := l.probes[number]
	if p.kind != knock {
		if l.socket == nil {
			return l.trouble
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

// found says of this host's own troubles, where they are why nothing is known.
func (l *leg) found() Way {
	way := l.way.found()
	if way.Because != "" && l.trouble != nil && !errors.Is(l.trouble, unix.EHOSTUNREACH) {
		return Way{Because: "nothing can be sent there: " + l.trouble.Error()}
	}
	return way
}

func (w *walker) close() {
	for _, each := range w.legs {
		if each.socket != nil {
			each.socket.close()
		}
		for _, d := range each.syns {
			d.close()
		}
	}
}
