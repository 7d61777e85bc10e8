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
	rounds    = 3 // the tracer probes a TTL without an answer up to 3 times
	synCount  = 3 // SYNs, if no echo was answered

	echoEvery  = 50 * time.Millisecond
	stepEvery  = 10 * time.Millisecond
	roundEvery = 700 * time.Millisecond
	synEvery   = 100 * time.Millisecond
	patience   = time.Second // for an answer
	synFrom    = (echoCount-1)*echoEvery + patience
)

// Target is a destination to measure.
type Target struct {
	Address netip.Addr
	Port    uint16 // for TCP SYNs if no echo is answered; 0: no SYNs
	Routers bool   // whether to find the routers on the path
}

// Distance is the result for one destination: its round trip, and the routers on the path.
type Distance struct {
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

// measurement is the running measurement of one destination. The caller passes the time and does all I/O.
type measurement struct {
	to              Target
	probes          []probe             // indexed by the probe's number
	order           []int               // probe numbers by due time
	upto            int                 // index into order: earlier probes were sent or skipped
	routers         [maxHops + 1]Router // by hops; zero without an answer
	end             int                 // hops to the destination or to an unreachable report; more than maxHops: unknown
	unreachableFrom netip.Addr          // sender of the last unreachable report
}

// newMeasurement schedules all probes from a start time.
func newMeasurement(to Target, began time.Duration) *measurement {
	m := &measurement{to: to, end: maxHops + 1}
	add := func(k kind, hops int, after time.Duration) {
		m.probes = append(m.probes, probe{kind: k, hops: hops, due: began + after})
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
	for n := range m.probes {
		m.order = append(m.order, n)
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(m.probes[a].due, m.probes[b].due) })
	return m
}

// next returns the number of the probe to send now, or false.
func (m *measurement) next(now time.Duration) (int, bool) {
	for ; m.upto < len(m.order); m.upto++ {
		p := m.probes[m.order[m.upto]]
		if p.due > now {
			return 0, false
		}
		if m.wants(p) {
			return m.order[m.upto], true
		}
	}
	return 0, false
}

// nextDue returns when the next probe is due.
func (m *measurement) nextDue() time.Duration {
	if m.upto == len(m.order) {
		return math.MaxInt64
	}
	return m.probes[m.order[m.upto]].due
}

// wants reports whether an answer to this probe would add information. The caller skips other probes.
func (m *measurement) wants(p probe) bool {
	switch p.kind {
	case step:
		return p.hops < m.end && !m.routers[p.hops].Address.IsValid()
	case tcpSYN:
		return !slices.ContainsFunc(m.probes[:echoCount], probe.answered)
	default:
		return true
	}
}

// sending records that the probe returned by next is sent.
func (m *measurement) sending(number int, now time.Duration) {
	m.probes[number].sent = now
	m.upto++
}

// answer records an answer. Unknown numbers and duplicates are ignored.
func (m *measurement) answer(number int, word verdict, from netip.Addr, now time.Duration) {
	if number < 0 || number >= len(m.probes) {
		return
	}
	p := &m.probes[number]
	if p.sent == 0 || p.answered() {
		return
	}
	if word == unreachable {
		m.unreachableFrom = from
	}
	switch {
	case p.kind == step && word == reached, p.kind == step && from == m.to.Address:
		m.end = min(m.end, p.hops)
	case p.kind == step && word == unreachable:
		m.end = min(m.end, p.hops+1)
	case p.kind != step && word != reached:
		return
	}
	p.took = max(now-p.sent, time.Microsecond)
	if p.kind == step {
		m.routers[p.hops] = Router{from, p.took}
	}
}

func (p probe) answered() bool { return p.took != 0 }

// over reports whether nothing is left to send or to await.
func (m *measurement) over(now time.Duration) bool {
	for _, number := range m.order[m.upto:] {
		if m.wants(m.probes[number]) {
			return false
		}
	}
	for _, p := range m.probes {
		if p.sent != 0 && !p.answered() && now < p.sent+patience && m.wants(p) {
			return false
		}
	}
	return true
}

// found returns the result.
func (m *measurement) found() Distance {
	measurement := m.counted(echo)
	if measurement.RTT == 0 && m.to.Port != 0 {
		if by := m.counted(tcpSYN); by.RTT != 0 {
			measurement = by
		}
	}
	if measurement.RTT == 0 {
		measurement.Reason = m.silent()
	}
	for hops := 1; hops < m.end && hops <= maxHops; hops++ {
		measurement.Routers = append(measurement.Routers, m.routers[hops])
	}
	for len(measurement.Routers) > 0 && m.end > maxHops && !measurement.Routers[len(measurement.Routers)-1].Address.IsValid() {
		measurement.Routers = measurement.Routers[:len(measurement.Routers)-1] // the destination did not answer: hops after the last router are unknown
	}
	if !m.to.Routers {
		measurement.Routers = nil
	}
	return measurement
}

func (m *measurement) counted(of kind) (measurement Distance) {
	for _, p := range m.probes {
		switch {
		case p.kind != of || p.sent == 0:
			continue
		case !p.answered():
			measurement.Lost++
		case measurement.RTT == 0 || p.took < measurement.RTT:
			measurement.RTT = p.took
		}
		measurement.Sent++
	}
	return measurement
}

func (m *measurement) silent() string {
	reason := fmt.Sprintf("%v does not answer pings", m.to.Address)
	if m.to.Port != 0 {
		reason += fmt.Sprintf(" or TCP SYNs at port %d", m.to.Port)
	}
	if m.unreachableFrom.IsValid() {
		reason += fmt.Sprintf("; %v reports that the host is unreachable", m.unreachableFrom)
	}
	return reason
}
