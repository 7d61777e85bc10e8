// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

const (
	echoCount = 5 // sent with the default TTL
	maxHops   = 30
	rounds    = 3 // of steps, for TTLs without an answer
	synCount  = 3 // SYNs, if no echo was answered

	echoEvery  = 50 * time.Millisecond
	stepEvery  = 10 * time.Millisecond
	roundEvery = 700 * time.Millisecond
	synEvery   = 100 * time.Millisecond
	patience   = time.Second // for an answer
	synFrom    = (echoCount-1)*echoEvery + patience
)

// To is a destination to measure.
type To struct {
	Address netip.Addr
	Port    uint16 // for TCP SYNs if no echo is answered; 0: no SYNs
	Routers bool   // whether to find the routers on the way
}

// Way is the result for one destination.
type Way struct {
	Reason     string        // why RTT is unknown, or ""
	RTT        time.Duration // minimum; 0: unknown
	Sent, Lost int
	Routers    []Router // nearest first
}

// Router is a hop on the route.
type Router struct {
	Address netip.Addr // invalid: the router did not answer
	RTT     time.Duration
}

// kind is the type of a probe.
type kind byte

const (
	echo kind = iota
	step      // an echo with a low TTL
	tcpSYN
)

// probe is one packet to send.
type probe struct {
	kind kind
	hops int           // TTL of a step
	due  time.Duration // on the monotonic clock
	sent time.Duration // 0: not sent yet
	took time.Duration // 0: not answered yet
}

// verdict says what an answer means.
type verdict byte

const (
	reached     verdict = iota // by the destination
	ttlExceeded                // by a router, for an expired TTL
	unreachable                // by any host
)

// way is the state of one destination. The caller passes the time and does all I/O.
type way struct {
	to              To
	probes          []probe             // indexed by the probe's number
	order           []int               // probe numbers by due time
	upto            int                 // index into order: earlier probes were sent or skipped
	routers         [maxHops + 1]Router // by hops; zero without an answer
	end             int                 // hops to the destination or to an unreachable report; more than maxHops: unknown
	unreachableFrom netip.Addr          // sender of the last unreachable report
}

// newWay schedules all probes from a start time.
func newWay(to To, began time.Duration) *way {
	w := &way{to: to, end: maxHops + 1}
	add := func(k kind, hops int, after time.Duration) {
		w.probes = append(w.probes, probe{kind: k, hops: hops, due: began + after})
	}
	for n := range echoCount {
		add(echo, 0, time.Duration(n)*echoEvery)
	}
	for round := range rounds {
		for hops := 1; to.Routers && hops <= maxHops; hops++ {
			add(step, hops, time.Duration(round)*roundEvery+time.Duration(hops)*stepEvery)
		}
	}
	for n := 0; to.Port != 0 && n < synCount; n++ {
		add(tcpSYN, 0, synFrom+time.Duration(n)*synEvery)
	}
	for n := range w.probes {
		w.order = append(w.order, n)
	}
	slices.SortStableFunc(w.order, func(a, b int) int { return cmp.Compare(w.probes[a].due, w.probes[b].due) })
	return w
}

// next returns the number of the probe to send now, or false.
func (w *way) next(now time.Duration) (int, bool) {
	for ; w.upto < len(w.order); w.upto++ {
		p := w.probes[w.order[w.upto]]
		if p.due > now {
			return 0, false
		}
		if w.wants(p) {
			return w.order[w.upto], true
		}
	}
	return 0, false
}

// nextDue returns when the next probe is due.
func (w *way) nextDue() time.Duration {
	if w.upto == len(w.order) {
		return math.MaxInt64
	}
	return w.probes[w.order[w.upto]].due
}

// wants reports whether an answer to this probe would add information.
func (w *way) wants(p probe) bool {
	switch p.kind {
	case step:
		return p.hops < w.end && !w.routers[p.hops].Address.IsValid()
	case tcpSYN:
		return !slices.ContainsFunc(w.probes[:echoCount], probe.answered)
	default:
		return true
	}
}

// sending records that the probe returned by next is sent.
func (w *way) sending(number int, now time.Duration) {
	w.probes[number].sent = now
	w.upto++
}

// answer records an answer. Unknown numbers and duplicates are ignored.
func (w *way) answer(number int, word verdict, from netip.Addr, now time.Duration) {
	if number < 0 || number >= len(w.probes) {
		return
	}
	p := &w.probes[number]
	if p.sent == 0 || p.answered() {
		return
	}
	if word == unreachable {
		w.unreachableFrom = from
	}
	switch {
	case p.kind == step && word == reached, p.kind == step && from == w.to.Address:
		w.end = min(w.end, p.hops)
	case p.kind == step && word == unreachable:
		w.end = min(w.end, p.hops+1)
	case p.kind != step && word != reached:
		return
	}
	p.took = max(now-p.sent, time.Microsecond)
	if p.kind == step {
		w.routers[p.hops] = Router{from, p.took}
	}
}

func (p probe) answered() bool { return p.took != 0 }

// over reports whether nothing is left to send or to await.
func (w *way) over(now time.Duration) bool {
	for _, number := range w.order[w.upto:] {
		if w.wants(w.probes[number]) {
			return false
		}
	}
	for _, p := range w.probes {
		if p.sent != 0 && !p.answered() && now < p.sent+patience && w.wants(p) {
			return false
		}
	}
	return true
}

// found returns the result.
func (w *way) found() Way {
	way := w.counted(echo)
	if way.RTT == 0 && w.to.Port != 0 {
		if by := w.counted(tcpSYN); by.RTT != 0 {
			way = by
		}
	}
	if way.RTT == 0 {
		way.Reason = w.silent()
	}
	for hops := 1; hops < w.end && hops <= maxHops; hops++ {
		way.Routers = append(way.Routers, w.routers[hops])
	}
	for len(way.Routers) > 0 && w.end > maxHops && !way.Routers[len(way.Routers)-1].Address.IsValid() {
		way.Routers = way.Routers[:len(way.Routers)-1] // the destination did not answer: hops after the last router are unknown
	}
	if !w.to.Routers {
		way.Routers = nil
	}
	return way
}

func (w *way) counted(of kind) (way Way) {
	for _, p := range w.probes {
		switch {
		case p.kind != of || p.sent == 0:
			continue
		case !p.answered():
			way.Lost++
		case way.RTT == 0 || p.took < way.RTT:
			way.RTT = p.took
		}
		way.Sent++
	}
	return way
}

func (w *way) silent() string {
	reason := fmt.Sprintf("%v does not answer pings", w.to.Address)
	if w.to.Port != 0 {
		reason += fmt.Sprintf(" or TCP SYNs at port %d", w.to.Port)
	}
	if w.unreachableFrom.IsValid() {
		reason += fmt.Sprintf("; %v reports that the host is unreachable", w.unreachableFrom)
	}
	return reason
}
