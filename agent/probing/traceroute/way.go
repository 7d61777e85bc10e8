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
	echoes   = 5 // sent to the destination itself
	farthest = 30
	rounds   = 3 // of steps, to where no router has answered yet
	knocks   = 3 // of TCP, where no echo came back

	echoEvery  = 50 * time.Millisecond
	stepEvery  = 10 * time.Millisecond
	roundEvery = 700 * time.Millisecond
	knockEvery = 100 * time.Millisecond
	patience   = time.Second // with an answer
	knocksFrom = (echoes-1)*echoEvery + patience
)

// To is a destination.
type To struct {
	Address netip.Addr
	Port    uint16 // of TCP, where no echo comes back; 0: none
	Routers bool   // are asked for
}

// Way is what came of it.
type Way struct {
	Because    string        // why it is not known; empty: it is
	RTT        time.Duration // the least; 0: not known
	Sent, Lost int
	Routers    []Router // the nearest first
}

// Router is one on the way.
type Router struct {
	Address netip.Addr // not valid: it does not say
	RTT     time.Duration
}

// kind is of what is sent.
type kind byte

const (
	echo kind = iota
	step      // an echo that goes as far as some router
	knock
)

// probe is one thing that is sent.
type probe struct {
	kind kind
	hops int           // of a step
	due  time.Duration // after the walk began
	sent time.Duration // 0: not sent
	took time.Duration // 0: not answered
}

// said is an answer's word.
type said byte

const (
	here      said = iota // the destination's own
	tooFar                // a router's, of what goes no farther
	noFurther             // whoever says that it cannot be reached
)

// way is one destination, as far as it is known. It is told the time, and knows no socket.
type way struct {
	to      To
	probes  []probe              // a probe's number is its place
	order   []int                // of their numbers, by when they are due
	upto    int                  // of the order: what is before was sent, or is not wanted any more
	routers [farthest + 1]Router // by hops, as far as they have answered
	end     int                  // hops to where an answer came from that is not a router's; more than farthest: not known
	no      netip.Addr
}

// newWay begins at a time.
func newWay(to To, began time.Duration) *way {
	w := &way{to: to, end: farthest + 1}
	add := func(k kind, hops int, after time.Duration) {
		w.probes = append(w.probes, probe{kind: k, hops: hops, due: began + after})
	}
	for n := range echoes {
		add(echo, 0, time.Duration(n)*echoEvery)
	}
	for round := range rounds {
		for hops := 1; to.Routers && hops <= farthest; hops++ {
			add(step, hops, time.Duration(round)*roundEvery+time.Duration(hops)*stepEvery)
		}
	}
	for n := 0; to.Port != 0 && n < knocks; n++ {
		add(knock, 0, knocksFrom+time.Duration(n)*knockEvery)
	}
	for n := range w.probes {
		w.order = append(w.order, n)
	}
	slices.SortStableFunc(w.order, func(a, b int) int { return cmp.Compare(w.probes[a].due, w.probes[b].due) })
	return w
}

// next is the number of what is to be sent now; false: nothing is.
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

// soon is when the next one is due.
func (w *way) soon() time.Duration {
	if w.upto == len(w.order) {
		return math.MaxInt64
	}
	return w.probes[w.order[w.upto]].due
}

// wants tells whether an answer to it would tell anything new.
func (w *way) wants(p probe) bool {
	switch p.kind {
	case step:
		return p.hops < w.end && !w.routers[p.hops].Address.IsValid()
	case knock:
		return !slices.ContainsFunc(w.probes[:echoes], probe.answered)
	default:
		return true
	}
}

// sending is of the number that was next.
func (w *way) sending(number int, now time.Duration) {
	w.probes[number].sent = now
	w.upto++
}

// answer is of a number that was sent: what comes twice, or to nothing, tells nothing.
func (w *way) answer(number int, word said, from netip.Addr, now time.Duration) {
	if number < 0 || number >= len(w.probes) {
		return
	}
	p := &w.probes[number]
	if p.sent == 0 || p.answered() {
		return
	}
	if word == noFurther {
		w.no = from
	}
	switch {
	case p.kind == step && word == here, p.kind == step && from == w.to.Address:
		w.end = min(w.end, p.hops)
	case p.kind == step && word == noFurther:
		w.end = min(w.end, p.hops+1)
	case p.kind != step && word != here:
		return
	}
	p.took = max(now-p.sent, time.Microsecond)
	if p.kind == step {
		w.routers[p.hops] = Router{from, p.took}
	}
}

func (p probe) answered() bool { return p.took != 0 }

// over tells whether nothing more is sent or awaited.
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

// found is what came of it.
func (w *way) found() Way {
	way := w.counted(echo)
	if way.RTT == 0 && w.to.Port != 0 {
		if by := w.counted(knock); by.RTT != 0 {
			way = by
		}
	}
	if way.RTT == 0 {
		way.Because = w.silent()
	}
	for hops := 1; hops < w.end && hops <= farthest; hops++ {
		way.Routers = append(way.Routers, w.routers[hops])
	}
	for len(way.Routers) > 0 && w.end > farthest && !way.Routers[len(way.Routers)-1].Address.IsValid() {
		way.Routers = way.Routers[:len(way.Routers)-1] // where it ends nobody has said
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
	because := fmt.Sprintf("%v answers no ping", w.to.Address)
	if w.to.Port != 0 {
		because += fmt.Sprintf(", nor TCP at port %d", w.to.Port)
	}
	if w.no.IsValid() {
		because += fmt.Sprintf("; %v says that it cannot be reached", w.no)
	}
	return because
}
