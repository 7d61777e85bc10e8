// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"errors"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	together   = 64      // frames on their way to a device: a veth has room for 256
	roomToHear = 8 << 20 // bytes
)

// mouth sends frames on a device.
type mouth struct{ fd int }

// ear receives the frames that passed the programs of a device, or of all devices.
type ear struct {
	fd     int
	buffer [2048]byte
}

type hearing struct {
	times []uint8 // number of arrivals, by packet number
	err   error
}

func newMouth(t *testing.T, device string) *mouth {
	t.Helper()
	return &mouth{socket(t, device, 0)}
}

func newEar(t *testing.T, device string) *ear {
	t.Helper()
	e := &ear{fd: socket(t, device, unix.ETH_P_ALL)}
	if err := unix.SetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, roomToHear); err != nil {
		t.Fatal(err)
	}
	return e
}

// socket opens a packet socket in the thread's namespace.
func socket(t *testing.T, device string, protocol uint16) int {
	t.Helper()
	place := &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8}
	if device != "" {
		found, err := net.InterfaceByName(device)
		if err != nil {
			t.Fatal(err)
		}
		place.Ifindex = found.Index
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, place); err != nil {
		t.Fatal(err)
	}
	patience := unix.NsecToTimeval(int64(100 * time.Millisecond))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		t.Fatal(err)
	}
	return fd
}

func (m *mouth) write(frame []byte) error {
	for {
		if _, err := unix.Write(m.fd, frame); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// sends sends frames from the channel, with at most the device's room in flight: `judged` returns how many were handled. It
// drains the channel in any case.
func (m *mouth) sends(orders <-chan [][]byte, judged func() (uint64, error)) error {
	sent, err := judged()
	for frames := range orders {
		for first := 0; first < len(frames) && err == nil; first += together {
			some := frames[first:min(first+together, len(frames))]
			for _, frame := range some {
				err = errors.Join(err, m.write(frame))
			}
			sent += uint64(len(some))
			err = errors.Join(err, awaited(judged, sent))
		}
	}
	return err
}

func awaited(count func() (uint64, error), wanted uint64) error {
	for deadline := time.Now().Add(deaf); ; time.Sleep(50 * time.Microsecond) {
		now, err := count()
		switch {
		case err != nil:
			return err
		case now == wanted:
			return nil
		case now > wanted || time.Now().After(deadline):
			return fmt.Errorf("%d packets were seen within %v, expected %d", now, deaf, wanted)
		}
	}
}

// read returns EAGAIN after a short wait.
func (e *ear) read() ([]byte, error) {
	for {
		n, err := unix.Read(e.fd, e.buffer[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return e.buffer[:max(n, 0)], err
	}
}

// counts counts packets until stop is closed and all passed packets are read: an unread packet would count as lost.
func (e *ear) counts(packets int, stop <-chan struct{}, passed func() (uint64, error)) hearing {
	h := hearing{times: make([]uint8, packets)}
	heard, all, enough := uint64(0), uint64(math.MaxUint64), time.Time{}
	for heard < all && h.err == nil {
		frame, err := e.read()
		number, ours := numberOf(frame)
		switch {
		case errors.Is(err, unix.EAGAIN):
		case err != nil:
			h.err = err
		case ours && number < packets:
			heard++
			h.times[number] = min(h.times[number], math.MaxUint8-1) + 1
		}
		select {
		case <-stop:
			stop, enough = nil, time.Now().Add(deaf)
			all, h.err = passed()
		default:
		}
		if stop == nil && time.Now().After(enough) {
			h.err = errors.Join(h.err, fmt.Errorf("%d packets were heard, and %d passed", heard, all))
		}
	}
	return h
}
