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
	maxReplayBytes = 64 << 10 // of a terminal's data before the relay has answered
	maxEarlyBytes  = 2 << 10  // of data that may travel with the request
)

// replay is a terminal whose data is on its way to a relay that has not answered. It keeps the data, to send it
// elsewhere if the relay refuses.
type replay struct {
	*carry.Plain
	counts *counts

	mutex   sync.Mutex
	settled chan struct{} // the other end has connected
	left    chan struct{} // the data must go elsewhere
	head    []byte
	gone    int  // bytes of head sent on the current attempt
	broken  bool // the terminal's connection failed
}

func newReplay(terminal *carry.Plain, counts *counts) *replay {
	return &replay{Plain: terminal, counts: counts, settled: make(chan struct{}), left: make(chan struct{})}
}

// Read keeps what it reads until settled.
func (k *replay) Read(b []byte) (int, error) {
	if n := k.replayed(b); n > 0 {
		return n, nil
	}
	most, err := k.awaitRoom()
	if err != nil {
		return 0, err
	}
	n, err := k.Plain.Read(b[:min(len(b), most)])
	k.counts.up.Add(uint64(n))
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !isClosed(k.settled) {
		k.head = append(k.head, b[:n]...)
		k.gone = len(k.head)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
	case !errors.Is(err, os.ErrDeadlineExceeded):
		k.broken = true
	case isClosed(k.left):
		err = carry.ErrLeft
	}
	return n, err
}

// Write writes to the terminal.
func (k *replay) Write(b []byte) (int, error) {
	n, err := k.Plain.Write(b)
	k.counts.down.Add(uint64(n))
	return n, err
}

// replayed returns data read during an earlier attempt.
func (k *replay) replayed(b []byte) int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	n := copy(b, k.head[k.gone:])
	k.gone += n
	if k.gone == len(k.head) && isClosed(k.settled) {
		k.head, k.gone = nil, 0
	}
	return n
}

// awaitRoom returns how much may be read. It waits while the buffer is full.
func (k *replay) awaitRoom() (int, error) {
	if isClosed(k.settled) {
		return maxReplayBytes, nil
	}
	k.mutex.Lock()
	most := maxReplayBytes - len(k.head)
	k.mutex.Unlock()
	if isClosed(k.left) {
		return 0, carry.ErrLeft
	}
	if most > 0 {
		return most, nil
	}
	select {
	case <-k.settled:
		return maxReplayBytes, nil
	case <-k.left:
		return 0, carry.ErrLeft
	}
}

func isClosed(so <-chan struct{}) bool {
	select {
	case <-so:
		return true
	default:
		return false
	}
}

// early returns what the terminal has sent so far.
func (k *replay) early() ([]byte, error) {
	if len(k.head) == 0 {
		b := make([]byte, maxEarlyBytes)
		n, err := k.Plain.ReadAvailable(b)
		if err != nil {
			return nil, err
		}
		k.counts.up.Add(uint64(n))
		k.head = b[:n]
	}
	k.gone = min(len(k.head), maxEarlyBytes)
	return k.head[:k.gone], nil
}

// settle releases the kept data, except what this attempt has not sent yet.
func (k *replay) settle() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.settled)
	k.head, k.gone = k.head[k.gone:], 0
}

// leave ends the reading.
func (k *replay) leave() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.left)
	k.Plain.SetReadDeadline(time.Unix(1, 0))
}

// restart restarts from the terminal's first byte, after the pair has ended.
func (k *replay) restart() {
	k.Plain.SetReadDeadline(time.Time{})
	k.settled, k.left, k.gone = make(chan struct{}), make(chan struct{}), 0
}

// SetReadDeadline sets the deadline, until the terminal is left.
func (k *replay) SetReadDeadline(at time.Time) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if isClosed(k.left) {
		return nil
	}
	return k.Plain.SetReadDeadline(at)
}

// Reset resets the terminal's connection, unless it is left.
func (k *replay) Reset() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !isClosed(k.left) {
		k.Plain.Reset()
	}
}
