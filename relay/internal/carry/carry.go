// SPDX-License-Identifier: Apache-2.0

// Package carry takes bytes from one connection to another, both ways, and how each way ends: a half-close is a half-close
// at the other side, a reset is a reset there, and who reads slowly is sent no more than waits in the kernel and in one
// buffer. A pair in which nothing moves any more is ended.
package carry

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// End is one side's connection.
type End interface {
	io.Reader
	io.Writer     // what is written may wait for Flush
	Flush() error // sends what was written
	SetReadDeadline(time.Time) error
	CloseWrite() error // nothing more goes there; what comes from there still does
	Close() error      // both ways have ended
	Reset()            // it is cut off, and its peer hears so
	Lost() bool        // its peer has cut it off, and nobody has read that yet
	Unsent() bool      // not all that was sent is known to have reached whom it is for
}

// ErrCut is of a connection that ended without its peer having said that it ends: what came may not be all.
var ErrCut = errors.New("the connection was cut off")

// ErrLeft is what the near end reads as when its bytes shall go elsewhere: nothing is cut off.
var ErrLeft = errors.New("the connection was left")

const (
	// Of a connection where nothing moves, only this much is held; a buffer is lent to those where much does.
	idleBytes = 512
	lentBytes = 32 << 10
	lentFor   = time.Second // without a byte

	lookEvery = time.Second // at the one side, while the other takes nothing

	idleAtMost    = 2*time.Hour + 4*time.Minute // without a byte (RFC 5382, REQ-5)
	halfClosedFor = 2 * time.Minute             // likewise, after one way has ended
)

var lent = sync.Pool{New: func() any { return new([lentBytes]byte) }}

// Pair is two ends.
type Pair struct {
	Near, Far End

	Idle, HalfClosed time.Duration // without a byte; 0: 2 h 4 min, and 2 min after one way has ended
}

// Run carries both ways until both have ended; nil when both ended by themselves.
func (p Pair) Run() error { return p.Finish(p.Begin()) }

// Underway is a pair of which the way from near to far is carried.
type Underway struct {
	up   chan error
	life *life
}

// Begin carries from near to far.
func (p Pair) Begin() *Underway {
	u := &Underway{make(chan error, 1), p.live()}
	go func() { u.up <- p.way(u.life, p.Near, p.Far) }()
	return u
}

// Wait waits until the way from near to far has ended, where the other one is not carried.
func (u *Underway) Wait() error {
	defer u.life.end()
	return <-u.up
}

// Finish carries from far to near, and awaits what Begin began.
func (p Pair) Finish(u *Underway) error {
	err := p.way(u.life, p.Far, p.Near)
	if err = errors.Join(err, u.Wait()); err != nil {
		p.Cut()
		return err
	}
	return errors.Join(p.Near.Close(), p.Far.Close())
}

// Cut resets both.
func (p Pair) Cut() {
	p.Near.Reset()
	p.Far.Reset()
}

func (p Pair) way(life *life, from, to End) error {
	w := &way{from: from, to: to, life: life, cut: p.Cut}
	defer w.end()
	err := w.copy()
	if err == nil {
		if err = to.CloseWrite(); err == nil {
			life.halfClosed(from, to)
		}
	}
	if err != nil && !errors.Is(err, ErrLeft) {
		p.Cut()
	}
	return err
}

// way is one direction of a pair. While its one side takes nothing, it sees a reset at the other, which is not read.
type way struct {
	from, to End
	life     *life
	cut      func()

	mutex   sync.Mutex
	writing bool
	timer   *time.Timer
}

// copy ends with what `from` ends with, nil for its end.
func (w *way) copy() error {
	idle := make([]byte, idleBytes)
	for {
		n, err := w.from.Read(idle)
		if failed := w.send(idle[:n], func() {}); failed != nil {
			return failed
		}
		if err == nil && n == len(idle) {
			err = w.much()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// much is copy with a buffer that is lent, until nothing comes for a while.
func (w *way) much() error {
	for {
		if err := w.from.SetReadDeadline(time.Now().Add(lentFor)); err != nil {
			return err
		}
		buffer := lent.Get().(*[lentBytes]byte)
		giveBack := func() { lent.Put(buffer) }
		n, err := w.from.Read(buffer[:])
		if failed := w.send(buffer[:n], giveBack); failed != nil {
			return failed
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return w.from.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return err
		}
	}
}

// send writes bytes, and lets go of their buffer before it waits for their being sent where that may be.
func (w *way) send(b []byte, written func()) error {
	if len(b) == 0 {
		written()
		return nil
	}
	w.begin()
	defer w.pause()
	w.life.move()
	_, err := w.to.Write(b)
	written()
	if err == nil {
		err = w.to.Flush()
	}
	w.life.move()
	return err
}

func (w *way) begin() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writing = true
	if w.timer == nil {
		w.timer = time.AfterFunc(lookEvery, w.look)
		return
	}
	w.timer.Reset(lookEvery)
}

func (w *way) look() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case !w.writing:
	case w.from.Lost():
		w.cut()
	default:
		w.timer.Reset(lookEvery)
	}
}

func (w *way) pause() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writing = false
	w.timer.Stop()
}

func (w *way) end() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
