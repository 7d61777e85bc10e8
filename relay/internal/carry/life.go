// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

const checksPerHalfClosed = 8 // checks per HalfClosed, while the end may not have reached the peer

var began = time.Now()

// idleTimer ends an idle pair. A terminal that has half-closed forgets the connection after a minute, and a server may
// keep it for ever.
type idleTimer struct {
	pair  Pair
	moved atomic.Int64 // time of the last data, since began

	mutex sync.Mutex
	timer *time.Timer
	over  bool
	ended End // the end that sends no more; nil: none
	sink  End // the other one
}

func (p Pair) newIdleTimer() *idleTimer {
	p.Idle, p.HalfClosed = cmp.Or(p.Idle, idleTimeout), cmp.Or(p.HalfClosed, halfClosedTimeout)
	l := &idleTimer{pair: p}
	l.move()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.timer = time.AfterFunc(p.Idle, l.check)
	return l
}

func (l *idleTimer) move() { l.moved.Store(int64(time.Since(began))) }

func (l *idleTimer) halfClosed(ended, sink End) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ended, l.sink = ended, sink
	if !l.over {
		l.timer.Reset(l.pair.HalfClosed)
	}
}

func (l *idleTimer) end() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.over = true
	l.timer.Stop()
}

// check ends the pair or schedules the next check. After one direction has ended and its data is acknowledged, the
// other one has a limit: its receiver may have forgotten the connection, as when a process ends. Then its sender is
// reset.
func (l *idleTimer) check() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.over {
		return
	}
	rests := time.Since(began) - time.Duration(l.moved.Load())
	half := l.ended != nil
	switch {
	case rests >= l.pair.Idle, half && l.ended.IsReset():
		l.over = true
		l.pair.Cut()
	case half && rests >= l.pair.HalfClosed && !l.sink.HasUnsent():
		l.over = true
		l.sink.Close()
		l.ended.Reset()
	case half:
		l.timer.Reset(max(l.pair.HalfClosed-rests, l.pair.HalfClosed/checksPerHalfClosed))
	default:
		l.timer.Reset(l.pair.Idle - rests)
	}
}
