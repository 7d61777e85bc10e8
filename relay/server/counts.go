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

// Of so many of the last answers it is known how long they were here.
const answersKept = 128

// Totals are what a relay has done. They only grow, but for those that are of now.
type Totals struct {
	Connections, Waiting       int // now: carried; opened, and nothing asked for yet
	Carried                    uint64
	Refused, Failed, Strangers uint64
	Up, Down                   uint64        // bytes, to servers and from them
	Overhead                   time.Duration // the median of late answers; 0: not known
}

// Totals are as they are now.
func (s *Server) Totals() Totals {
	c := &s.count
	return Totals{
		Connections: int(c.connections.Load()), Waiting: int(c.waiting.Load()), Carried: c.carried.Load(),
		Refused: c.refused.Load(), Failed: c.failed.Load(), Strangers: c.strangers.Load(),
		Up: c.up.Load(), Down: c.down.Load(), Overhead: c.stays.median(),
	}
}

type counts struct {
	connections, waiting       atomic.Int64
	carried                    atomic.Uint64
	refused, failed, strangers atomic.Uint64
	up, down                   atomic.Uint64
	stays                      stays
}

// no is of a request that was answered with a refusal.
func (c *counts) no(code int) {
	switch code {
	case httpconnect.Refused, httpconnect.Unanswering, httpconnect.Unable:
		c.failed.Add(1)
	case httpconnect.TooLong: // nothing was asked for
	default:
		c.refused.Add(1)
	}
}

// of has two ends counted.
func (c *counts) of(gateway, server carry.End) (near, far carry.End) {
	t := &turns{counts: c}
	return &nearEnd{gateway, t}, &farEnd{server, t}
}

// turns are of one connection: the first bytes of an answer, which wait for nothing but this relay, tell what it adds. Of
// those behind them that is not known: they may wait for the gateway to take them.
type turns struct {
	counts *counts
	asked  atomic.Bool // something went to the server since it answered last
	came   time.Time   // the answer's first bytes, which are on their way; zero: none
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

// stays are how long answers were here, of late.
type stays struct {
	mutex sync.Mutex
	last  [answersKept]time.Duration
	n     int // in all
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
