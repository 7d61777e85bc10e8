// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// network answers probes without sockets. Its routers are 10.0.0.1, .2 and so on.
type network struct {
	hops       int
	deaf       bool // whether the destination ignores pings
	silent     []int
	refuses    int           // the router that reports unreachable; 0: none
	takes      time.Duration // delay of a hop
	tcpAnswers bool          // whether TCP SYNs are answered
	sent       int
}

// run measures a destination on a simulated clock with steps of 1 ms. It returns the result and the simulated duration.
func (n *network) run(t *testing.T, to Target) (Distance, time.Duration) {
	t.Helper()
	type answer struct {
		at     time.Duration
		number int
		word   verdict
		from   netip.Addr
	}
	began := time.Hour
	w, coming := newMeasurement(to, began), []answer{}
	now := began
	for ; !w.over(now); now += time.Millisecond {
		if now > began+3*time.Second {
			t.Fatal("it takes longer than 3 s")
		}
		for _, each := range coming {
			if each.at == now {
				w.answer(each.number, each.word, each.from, now)
				w.answer(each.number, each.word, each.from, now+time.Second) // duplicates are ignored
			}
		}
		for number, due := w.next(now); due; number, due = w.next(now) {
			w.sending(number, now)
			n.sent++
			if hops, word, answers := n.reaches(w.probes[number]); answers {
				at := now + max(time.Millisecond, time.Duration(hops)*n.takes)
				coming = append(coming, answer{at, number, word, netip.AddrFrom4([4]byte{10, 0, 0, byte(hops)})})
			}
		}
		w.answer(-1, reached, to.Address, now)
		w.answer(len(w.probes), reached, to.Address, now)
	}
	return w.found(), now - began
}

func (n *network) reaches(p probe) (hops int, word verdict, answers bool) {
	goes := n.hops
	if p.kind == step {
		goes = p.hops
	}
	switch {
	case p.kind == tcpSYN:
		return n.hops, reached, n.tcpAnswers
	case n.refuses != 0 && goes >= n.refuses:
		return n.refuses, unreachable, true
	case goes < n.hops:
		return goes, ttlExceeded, !slices.Contains(n.silent, goes)
	default:
		return n.hops, reached, !n.deaf
	}
}

func TestStateSendsOnlyInformativeProbes(t *testing.T) {
	far := Target{Address: netip.MustParseAddr("10.0.9.9"), Port: 443, Routers: true}
	const quick, all = 300 * time.Millisecond, 2800 * time.Millisecond
	for what, c := range map[string]struct {
		network
		rtt     time.Duration
		routers []int // 0: a silent router
		sent    int   // upper limit
		within  time.Duration
	}{
		"all answer":           {network{hops: 4, takes: 5 * time.Millisecond}, 20 * time.Millisecond, []int{1, 2, 3}, echoCount + 8, quick},
		"a router is silent":   {network{hops: 4, silent: []int{2}}, time.Millisecond, []int{1, 0, 3}, echoCount + 8, all},
		"only TCP is answered": {network{hops: 4, deaf: true, tcpAnswers: true}, time.Millisecond, []int{1, 2, 3}, echoCount + 3*maxHops + synCount, all},
		"a router has no way":  {network{hops: 9, refuses: 3}, 0, []int{1, 2, 3}, echoCount + 8 + synCount, all},
		"nobody answers":       {network{hops: 3, silent: []int{1, 2}, deaf: true}, 0, nil, echoCount + 3*maxHops + synCount, all},
	} {
		t.Run(what, func(t *testing.T) {
			result, took := c.run(t, far)
			var routers []int
			for _, each := range result.Routers {
				last := 0
				if each.Address.IsValid() {
					last = int(each.Address.As4()[3])
				}
				routers = append(routers, last)
			}
			if result.RTT != c.rtt || (result.Reason == "") != (c.rtt != 0) || !slices.Equal(routers, c.routers) {
				t.Errorf("%+v, expected %v by %v", result, c.rtt, c.routers)
			}
			if c.network.sent > c.sent || took > c.within {
				t.Errorf("%d were sent in %v, expected %d in %v at most", c.network.sent, took, c.sent, c.within)
			}
		})
	}
}

func FuzzAnsweredAndICMPError(f *testing.F) {
	f.Add([]byte{0x45, 19: 0}, []byte{4: byICMP})
	f.Add([]byte{0x4f, 24: 1}, []byte{4: byICMP, 5: tooFar4, 23: 2})
	f.Add(packets{six: true}.echoRequest(7), []byte{4: byICMP6, 5: tooFar6, 16: 10, 43: 0})
	f.Fuzz(func(t *testing.T, packet, extended []byte) {
		for _, p := range []packets{{}, {raw: true}, {six: true}, {six: true, raw: true}} {
			p.token = [tokenBytes]byte{1, 2, 3, 4, 5, 6, 7, 8}
			if _, ours := p.answered(packet); ours && len(packet) < headerBytes+tokenBytes {
				t.Fatalf("%x is taken for an answer", packet)
			}
			if _, _, from, ours := p.icmpError(packet, extended); ours && !from.IsValid() {
				t.Fatalf("%x is parsed as an error without a sender", extended)
			}
		}
	})
}
