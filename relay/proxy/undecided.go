// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"bicast/relay/internal/reach"
)

const (
	maxUndecided = 64
	undecidedTTL = time.Minute

	prefix4, prefix6 = 24, 48 // prefix lengths of a choice
)

// Undecided records destinations without a choice.
type Undecided struct {
	mutex sync.Mutex
	last  []Wanted // the newest last
}

// Wanted is a prefix and a destination in it.
type Wanted struct {
	Prefix netip.Prefix
	To     netip.AddrPort
	at     time.Time
}

func (s *Undecided) note(to netip.AddrPort) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	length := prefix4
	if to.Addr().Is6() {
		length = prefix6
	}
	prefix, err := to.Addr().Prefix(length)
	if err != nil || reach.Public(to.Addr()) != nil { // no relay reaches it, so there is nothing to choose
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = slices.DeleteFunc(s.last, func(w Wanted) bool { return w.Prefix == prefix })
	s.last = append(s.last, Wanted{prefix, to, time.Now()})
	if len(s.last) > maxUndecided {
		s.last = slices.Delete(s.last, 0, 1)
	}
}

// Last returns the destinations of the last minute without a choice, the newest first.
func (s *Undecided) Last(choices *Choices) []Wanted {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = slices.DeleteFunc(s.last, func(w Wanted) bool {
		_, chosen := choices.of(w.To.Addr())
		return chosen || time.Since(w.at) > undecidedTTL
	})
	newest := slices.Clone(s.last)
	slices.Reverse(newest)
	return newest
}
