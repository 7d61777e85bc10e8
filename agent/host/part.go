// SPDX-License-Identifier: Apache-2.0

package host

import (
	"sync"
	"time"
)

const (
	partWithin = 100 * time.Millisecond // timeout of an executor's part of a report
	staleAfter = 10 * time.Second       // an older part may no longer be true
)

// part is one executor's part of reports. An executor may be busy for seconds, for example with nft. Reports then repeat
// its last part, and omit it after staleAfter.
type part[T any] struct {
	read func() T

	mutex sync.Mutex
	last  T
	at    time.Time
	under chan struct{} // closed when the current reading ends; nil: none
}

// begin starts a reading, unless one is under way. It returns a channel that closes when the reading ends.
func (p *part[T]) begin() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.under == nil {
		ended := make(chan struct{})
		p.under = ended
		go func() {
			now := p.read()
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.last, p.at, p.under = now, time.Now(), nil
			close(ended)
		}()
	}
	return p.under
}

// now returns a fresh reading, or the last one if the fresh one takes too long and the last is not stale.
func (p *part[T]) now() T {
	select {
	case <-p.begin():
	case <-time.After(partWithin):
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.under != nil && time.Since(p.at) > staleAfter {
		var nothing T
		return nothing
	}
	return p.last
}
