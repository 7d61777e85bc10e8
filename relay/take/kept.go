package take

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"bicast/relay/carry"
)

const (
	keptBytes  = 64 << 10 // of what a terminal sends before the relay has answered
	firstBytes = 2 << 10  // that may travel with the request
)

// kept is a terminal whose bytes are on their way to a relay before that has answered: they are kept, so that they can go
// another way when it says no.
type kept struct {
	*carry.Plain
	settled chan struct{} // the relay has connected
	left    chan struct{} // the bytes shall go another way

	mutex  sync.Mutex
	head   []byte
	broken bool // the terminal was cut off
}

func keep(terminal *carry.Plain) *kept {
	return &kept{Plain: terminal, settled: make(chan struct{}), left: make(chan struct{})}
}

// Read keeps what it reads until that is settled.
func (k *kept) Read(b []byte) (int, error) {
	most, err := k.room()
	if err != nil {
		return 0, err
	}
	n, err := k.Plain.Read(b[:min(len(b), most)])
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !is(k.settled) {
		k.head = append(k.head, b[:n]...)
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
	b := make([]byte, firstBytes)
	n, err := k.Plain.There(b)
	k.head = append(k.head, b[:n]...)
	return b[:n], err
}

// settle lets go of what was kept.
func (k *kept) settle() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.settled)
	k.head = nil
}

// leave ends the reading.
func (k *kept) leave() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	close(k.left)
	k.Plain.SetReadDeadline(time.Unix(1, 0))
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
	if !is(k.left) {
		k.Plain.Reset()
	}
}

// again is the terminal from its first byte on, once the carrying has ended.
func (k *kept) again() carry.End {
	k.Plain.SetReadDeadline(time.Time{})
	return &carry.Ahead{End: k.Plain, First: k.head}
}
