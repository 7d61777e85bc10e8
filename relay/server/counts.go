// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"bicast/relay/internal/carry"
	"bicast/relay/internal/httpconnect"
)

// Size of the window of recent answers for the overhead.
const answersKept = 128

// Totals are the statistics of a relay. Counters only grow.
type Totals struct {
	Connections, Waiting             int // current: forwarding; open without a request
	Carried                          uint64
	Refused, Failed, Unauthenticated uint64
	Up, Down                         uint64        // bytes to and from servers
	Overhead                         time.Duration // median of recent answers; 0: unknown
}

// Totals returns the current statistics.
func (s *Server) Totals() Totals {
	c := &s.count
	return Totals{
		Connections: int(c.connections.Load()), Waiting: int(c.waiting.Load()), Carried: c.carried.Load(),
		Refused: c.refused.Load(), Failed: c.failed.Load(), Unauthenticated: c.unauthenticated.Load(),
		Up: c.up.Load(), Down: c.down.Load(), Overhead: c.stays.median(),
	}
}

type counts struct {
	connections, waiting             atomic.Int64
	carried                          atomic.Uint64
	refused, failed, unauthenticated atomic.Uint64
	up, down                         atomic.Uint64
	stays                            stays
}

// no counts a refusal.
func (c *counts) no(code int) {
	switch code {
	case httpconnect.Refused, httpconnect.Unanswering, httpconnect.Unable:
		c.failed.Add(1)
	case httpconnect.TooLong: // there was no request
	default:
		c.refused.Add(1)
	}
}

// of wraps both ends with counters.
func (c *counts) of(gateway, server carry.End) (near, far carry.End) {
	t := &turns{counts: c}
	return &nearEnd{gateway, t}, &farEnd{server, t}
}

// turns measures one connection's overhead: the first bytes of an answer wait for nothing but this relay. Later bytes
// may wait for the gateway to read.
type turns struct {
	counts *counts
	asked  atomic.Bool // data went to the server since its last answer
	came   time.Time   // arrival of an answer's first bytes still being sent; zero: none
}

type farEnd struct {
	carry.End
	turns *turns
}

func (f *farEnd) Read(b []byte) (int, error) {
	n, err := f.End.Read(b)
	f.turns.counts.down.Add(uint64(n))
	if n > 0 && f.turns.asked.CompareAndSwap(true, false) {
		f.turns.came = time.Now()
	}
	return n, err
}

func (f *farEnd) Write(b []byte) (int, error) {
	n, err := f.End.Write(b)
	f.turns.counts.up.Add(uint64(n))
	f.turns.asked.Store(true)
	return n, err
}

type nearEnd struct {
	carry.End
	turns *turns
}

func (n *nearEnd) Flush() error {
	err := n.End.Flush()
	if !n.turns.came.IsZero() {
		n.turns.counts.stays.add(time.Since(n.turns.came))
		n.turns.came = time.Time{}
	}
	return err
}

// stays are the times that recent answers spent in this relay.
type stays struct {
	mutex sync.Mutex
	last  [answersKept]time.Duration
	n     int // times added so far; the oldest are overwritten
}

func (s *stays) add(one time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last[s.n%answersKept] = one
	s.n++
}

func (s *stays) median() time.Duration {
	s.mutex.Lock()
	known := slices.Clone(s.last[:min(s.n, answersKept)])
	s.mutex.Unlock()
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/2]
}
