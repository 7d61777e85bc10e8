// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"bicast/relay/internal/carry"
)

const (
	keptBytes  = 64 << 10 // of what a terminal sends before the relay has answered
	firstBytes = 2 << 10  // that may travel with the request
)

// kept is a terminal whose bytes are on their way to a relay before that has answered: they are kept, so that they can go
// another way when it says no.
type kept struct {
	*carry.Plain
	counts *counts

	mutex   sync.Mutex
	settled chan struct{} // the other end has connected
	left    chan struct{} // the bytes shall go another way
	head    []byte
	gone    int  // bytes of the head that went this way
	broken  bool // the terminal was cut off
}

func keep(terminal *carry.Plain, counts *counts) *kept {
	return &kept{Plain: terminal, counts: counts, settled: make(chan struct{}), left: make(chan struct{})}
}

// Read keeps what it reads until that is settled.
func (k *kept) Read(b []byte) (int, error) {
	if n := k.repeat(b); n > 0 {
		return n, nil
	}
	most, err := k.room()
	if err != nil {
		return 0, err
	}
	n, err := k.Plain.Read(b[:min(len(b), most)])
	k.counts.up.Add(uint64(n))
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !is(k.settled) {
		k.head = append(k.head, b[:n]...)
		k.gone = len(k.head)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
	case !errors.Is(err, os.ErrDeadlineExceeded):
		k.broken = true
	case is(k.left):
		err = carry.ErrLeft
	}
	return n, err
}

// Write is to the terminal.
func (k *kept) Write(b []byte) (int, error) {
	n, err := k.Plain.Write(b)
	k.counts.down.Add(uint64(n))
	return n, err
}

// repeat is of what was read on another way.
func (k *kept) repeat(b []byte) int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	n := copy(b, k.head[k.gone:])
	k.gone += n
	if k.gone == len(k.head) && is(k.settled) {
		k.head, k.gone = nil, 0
	}
	return n
}

// room is how much may be read; it waits where all that may be kept is.
func (k *kept) room() (int, error) {
	if is(k.settled) {
		return keptBytes, nil
	}
	k.mutex.Lock()
	most := keptBytes - len(k.head)
	k.mutex.Unlock()
	if is(k.left) {
		return 0, carry.ErrLeft
	}
	if most > 0 {
		return most, nil
	}
	select {
	case <-k.settled:
		return keptBytes, nil
	case <-k.left:
		return 0, carry.ErrLeft
	}
}

func is(so <-chan struct{}) bool {
	select {
	case <-so:
		return true
	default:
		return false
	}
}

// first is what the terminal has sent already.
func (k *kept) first() ([]byte, error) {
	if len(k.head) == 0 {
		b := make([]byte, firstBytes)
		n, err := k.Plain.There(b)
		if err != nil {
			return nil, err
		}
		k.counts.up.Add(uint64(n))
		k.head = b[:n]
	}
	k.gone = min(len(k.head), firstBytes)
	return k.head[:k.gone], nil
}

// settle lets go of what was kept, but for what is still to go this way.
func (k *kept) settle() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.settled)
	k.head, k.gone = k.head[k.gone:], 0
}

// leave ends the reading.
func (k *kept) leave() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.left)
	k.Plain.SetReadDeadline(time.Unix(1, 0))
}

// again is the terminal from its first byte on, once the carrying has ended.
func (k *kept) again() {
	k.Plain.SetReadDeadline(time.Time{})
	k.settled, k.left, k.gone = make(chan struct{}), make(chan struct{}), 0
}

// SetReadDeadline is the carrying's, until the terminal is left.
func (k *kept) SetReadDeadline(at time.Time) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if is(k.left) {
		return nil
	}
	return k.Plain.SetReadDeadline(at)
}

// Reset is the carrying's, too.
func (k *kept) Reset() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !is(k.left) {
		k.Plain.Reset()
	}
}
