// SPDX-License-Identifier: Apache-2.0

// Package carry forwards data between two connections, in both directions, with their ends: a half-close stays a
// half-close, a reset a reset. A slow reader limits what is read for it to one buffer and the kernel's. An idle pair is
// ended.
package carry

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// End is one connection of a pair.
type End interface {
	io.Reader
	io.Writer     // may buffer until Flush
	Flush() error // sends buffered data
	SetReadDeadline(time.Time) error
	CloseWrite() error // half-close: no more data to the peer
	Close() error      // after both directions have ended
	Reset()            // resets the connection
	IsReset() bool     // whether the peer has reset it, even if unread
	HasUnsent() bool   // whether sent data may not have reached its final receiver
}

// ErrCut means that a connection ended without its peer's end of data: the data may be incomplete.
var ErrCut = errors.New("the connection was cut off")

// ErrLeft is returned by the near end if its data must go elsewhere: nothing is reset.
var ErrLeft = errors.New("the connection was left")

const (
	// An idle connection holds a small buffer; busy ones borrow a large one.
	idleBytes = 512
	busyBytes = 32 << 10
	busyTime  = time.Second // idle time before the buffer is returned

	checkInterval = time.Second // interval of checks for a reset of one side while the other does not read

	idleTimeout       = 2*time.Hour + 4*time.Minute // without data (RFC 5382, REQ-5)
	halfClosedTimeout = 2 * time.Minute             // without data, after one direction has ended
)

var buffers = sync.Pool{New: func() any { return new([busyBytes]byte) }}

// Pair is two connections.
type Pair struct {
	Near, Far End

	Idle, HalfClosed time.Duration // limits without data; 0: 2 h 4 min, and 2 min after one direction has ended
}

// Run forwards both directions until both have ended, and returns nil if both ended orderly.
func (p Pair) Run() error { return p.Finish(p.Begin()) }

// Underway is a pair whose near to far direction is being forwarded.
type Underway struct {
	up        chan error
	idleTimer *idleTimer
}

// Begin forwards from near to far.
func (p Pair) Begin() *Underway {
	u := &Underway{make(chan error, 1), p.newIdleTimer()}
	go func() { u.up <- p.direction(u.idleTimer, p.Near, p.Far) }()
	return u
}

// Wait waits for the end of that direction, if the other one is not forwarded.
func (u *Underway) Wait() error {
	defer u.idleTimer.end()
	return <-u.up
}

// Finish forwards from far to near and waits for both directions.
func (p Pair) Finish(u *Underway) error {
	err := p.direction(u.idleTimer, p.Far, p.Near)
	if err = errors.Join(err, u.Wait()); err != nil {
		p.Cut()
		return err
	}
	return errors.Join(p.Near.Close(), p.Far.Close())
}

// Cut resets both connections.
func (p Pair) Cut() {
	p.Near.Reset()
	p.Far.Reset()
}

func (p Pair) direction(idleTimer *idleTimer, from, to End) error {
	w := &direction{from: from, to: to, idleTimer: idleTimer, cut: p.Cut}
	defer w.end()
	err := w.copy()
	if err == nil {
		if err = to.CloseWrite(); err == nil {
			idleTimer.halfClosed(from, to)
		}
	}
	if err != nil && !errors.Is(err, ErrLeft) {
		p.Cut()
	}
	return err
}

// direction is one direction of a pair. While its destination does not read, it checks its source for a reset.
type direction struct {
	from, to  End
	idleTimer *idleTimer
	cut       func()

	mutex   sync.Mutex
	writing bool
	timer   *time.Timer
}

// copy returns the error of `from`, nil for its end.
func (w *direction) copy() error {
	idle := make([]byte, idleBytes)
	for {
		n, err := w.from.Read(idle)
		if failed := w.send(idle[:n], func() {}); failed != nil {
			return failed
		}
		if err == nil && n == len(idle) {
			err = w.copyBusy()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// copyBusy is copy with a borrowed buffer, until no data comes for a while.
func (w *direction) copyBusy() error {
	for {
		if err := w.from.SetReadDeadline(time.Now().Add(busyTime)); err != nil {
			return err
		}
		buffer := buffers.Get().(*[busyBytes]byte)
		giveBack := func() { buffers.Put(buffer) }
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

// send writes data. It calls written as soon as the buffer is free, before a Flush that may block.
func (w *direction) send(b []byte, written func()) error {
	if len(b) == 0 {
		written()
		return nil
	}
	w.begin()
	defer w.pause()
	w.idleTimer.move()
	_, err := w.to.Write(b)
	written()
	if err == nil {
		err = w.to.Flush()
	}
	w.idleTimer.move()
	return err
}

func (w *direction) begin() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writing = true
	if w.timer == nil {
		w.timer = time.AfterFunc(checkInterval, w.check)
		return
	}
	w.timer.Reset(checkInterval)
}

func (w *direction) check() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case !w.writing:
	case w.from.IsReset():
		w.cut()
	default:
		w.timer.Reset(checkInterval)
	}
}

func (w *direction) pause() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writing = false
	w.timer.Stop()
}

func (w *direction) end() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
