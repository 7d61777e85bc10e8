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
	soughtMost = 64
	soughtFor  = time.Minute

	prefix4, prefix6 = 24, 48 // of what is chosen for together
)

// Sought is where terminals went for which no choice stands.
type Sought struct {
	mutex sync.Mutex
	last  []Wanted // the newest last
}

// Wanted is one prefix, and a destination there.
type Wanted struct {
	Prefix netip.Prefix
	To     netip.AddrPort
	at     time.Time
}

func (s *Sought) note(to netip.AddrPort) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	length := prefix4
	if to.Addr().Is6() {
		length = prefix6
	}
	prefix, err := to.Addr().Prefix(length)
	if err != nil || reach.Public(to.Addr()) != nil { // where no relay leads there is nothing to choose
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = slices.DeleteFunc(s.last, func(w Wanted) bool { return w.Prefix == prefix })
	s.last = append(s.last, Wanted{prefix, to, time.Now()})
	if len(s.last) > soughtMost {
		s.last = slices.Delete(s.last, 0, 1)
	}
}

// Last are those of the last minute for which these choices have nothing, the newest first.
func (s *Sought) Last(choices *Choices) []Wanted {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = slices.DeleteFunc(s.last, func(w Wanted) bool {
		_, chosen := choices.of(w.To.Addr())
		return chosen || time.Since(w.at) > soughtFor
	})
	newest := slices.Clone(s.last)
	slices.Reverse(newest)
	return newest
}
