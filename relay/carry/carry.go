// Package carry takes bytes from one connection to another, both ways, and how each way ends: a half-close is a half-close
// at the other side, a reset is a reset there, and who reads slowly is sent no more than waits in the kernel and in one
// buffer.
package carry

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// End is one side's connection.
type End interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
	CloseWrite() error // nothing more goes there; what comes from there still does
	Close() error      // both ways have ended
	Reset()            // it is cut off, and its peer hears so
	Lost() bool        // its peer has cut it off, and nobody has read that yet
}

// ErrCut is of a connection that ended without its peer having said that it ends: what came may not be all.
var ErrCut = errors.New("the connection was cut off")

// ErrLeft is what the near end reads as when its bytes shall go elsewhere: nothing is cut off.
var ErrLeft = errors.New("the connection was left")

const (
	// Of a connection where nothing moves, only this much is held; a buffer is lent to those where much does.
	idleBytes = 512
	lentBytes = 64 << 10
	lentFor   = time.Second // without a byte

	lookEvery = time.Second // at the one side, while the other takes nothing
)

var lent = sync.Pool{New: func() any { return new([lentBytes]byte) }}

// Pair is two ends.
type Pair struct{ Near, Far End }

// Run carries both ways until both have ended; nil when both ended by themselves.
func (p Pair) Run() error { return p.Finish(p.Begin()) }

// Begin carries from near to far; what it gives has why that was cut off, or nil.
func (p Pair) Begin() <-chan error {
	up := make(chan error, 1)
	go func() { up <- p.way(p.Near, p.Far) }()
	return up
}

// Finish carries from far to near, and awaits what Begin gave.
func (p Pair) Finish(up <-chan error) error {
	err := p.way(p.Far, p.Near)
	if err = errors.Join(err, <-up); err != nil {
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

func (p Pair) way(from, to End) error {
	err := p.copy(from, to)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil && !errors.Is(err, ErrLeft) {
		p.Cut()
	}
	return err
}

// copy ends with what `from` ends with, nil for its end.
func (p Pair) copy(from, to End) error {
	watch := watch{from: from, cut: p.Cut}
	defer watch.end()
	idle := make([]byte, idleBytes)
	for {
		n, err := step(from, to, idle, &watch)
		if err == nil && n == len(idle) {
			err = p.much(from, to, &watch)
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
func (p Pair) much(from, to End, watch *watch) error {
	buffer := lent.Get().(*[lentBytes]byte)
	defer lent.Put(buffer)
	for {
		if err := from.SetReadDeadline(time.Now().Add(lentFor)); err != nil {
			return err
		}
		_, err := step(from, to, buffer[:], watch)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return from.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return err
		}
	}
}

func step(from io.Reader, to io.Writer, buffer []byte, watch *watch) (int, error) {
	n, err := from.Read(buffer)
	if n == 0 {
		return 0, err
	}
	watch.begin()
	_, failed := to.Write(buffer[:n])
	watch.pause()
	if failed != nil {
		return n, failed
	}
	return n, err
}

// watch sees a reset at the side that is not read, because the other takes nothing.
type watch struct {
	from    End
	cut     func()
	writing atomic.Bool
	timer   *time.Timer
}

func (w *watch) begin() {
	w.writing.Store(true)
	if w.timer == nil {
		w.timer = time.AfterFunc(lookEvery, w.look)
		return
	}
	w.timer.Reset(lookEvery)
}

func (w *watch) look() {
	switch {
	case !w.writing.Load():
	case w.from.Lost():
		w.cut()
	default:
		w.timer.Reset(lookEvery)
	}
}

func (w *watch) pause() {
	w.writing.Store(false)
	w.timer.Stop()
}

func (w *watch) end() {
	if w.timer != nil {
		w.pause()
	}
}
