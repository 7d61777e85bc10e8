// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

const looksAgain = 8 // times within HalfClosed, while the end of a way is not known to have reached its peer

var began = time.Now()

// life ends a pair in which nothing moves any more. A terminal that has sent its end forgets the connection after a minute, and
// a server may keep it for ever.
type life struct {
	pair  Pair
	moved atomic.Int64 // when, since `began`

	mutex sync.Mutex
	timer *time.Timer
	over  bool
	ended End // nil: none; else the one that sends nothing more
	sink  End // the other one
}

func (p Pair) live() *life {
	p.Idle, p.HalfClosed = cmp.Or(p.Idle, idleAtMost), cmp.Or(p.HalfClosed, halfClosedFor)
	l := &life{pair: p}
	l.move()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.timer = time.AfterFunc(p.Idle, l.look)
	return l
}

func (l *life) move() { l.moved.Store(int64(time.Since(began))) }

func (l *life) halfClosed(ended, sink End) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ended, l.sink = ended, sink
	if !l.over {
		l.timer.Reset(l.pair.HalfClosed)
	}
}

func (l *life) end() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.over = true
	l.timer.Stop()
}

// look ends the pair, or says when to look again. Where one way has ended, and its last byte has reached whom it is for, the
// other way is not waited for without end: that peer may forget us, as when a process ends, and the other one is reset.
func (l *life) look() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.over {
		return
	}
	rests := time.Since(began) - time.Duration(l.moved.Load())
	half := l.ended != nil
	switch {
	case rests >= l.pair.Idle, half && l.ended.Lost():
		l.over = true
		l.pair.Cut()
	case half && rests >= l.pair.HalfClosed && !l.sink.Unsent():
		l.over = true
		l.sink.Close()
		l.ended.Reset()
	case half:
		l.timer.Reset(max(l.pair.HalfClosed-rests, l.pair.HalfClosed/looksAgain))
	default:
		l.timer.Reset(l.pair.Idle - rests)
	}
}
