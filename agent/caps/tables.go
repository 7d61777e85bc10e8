// SPDX-License-Identifier: Apache-2.0

package caps

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/internal/clock"
)

// NoPace is no bound to how fast a socket sends.
const NoPace = ^uint32(0)

// NameBytes is what the name of a congestion control takes, with its NUL.
const NameBytes = 16

// The maps' contents: bpf/cwnd.h.
type (
	Pair   struct{ Source, Destination [16]byte }
	Bounds struct{ Most, Least, Pace uint32 }
	Name   [NameBytes]byte

	Settings struct {
		LeaseUntilNS  uint64
		TendedUntilNS uint64
		Netns         uint64
		Round         uint32
		Name, Other   Name
		_             uint32
	}
	Tally struct {
		Held, Refused uint32
		Because       int32
	}
)

// Objects are what the programs of every executor have, by the names of bpf/cwnd_bounds.h.
type Objects struct {
	Sweep    *ebpf.Program `ebpf:"sweep"`
	Settings *ebpf.Map     `ebpf:"settings"`
	Caps     *ebpf.Map     `ebpf:"caps"`
	Tallies  *ebpf.Map     `ebpf:"tallies"`
}

// Tables are the caps of a namespace, as its programs see them.
type Tables struct {
	Settings Settings
	objects  *Objects
	caps     map[Pair]Bounds
	sweeping *link.Iter
}

// NewTables have nothing in them.
func NewTables(objects *Objects) Tables { return Tables{objects: objects, caps: map[Pair]Bounds{}} }

// Open has the kernel ready to go through its sockets.
func (t *Tables) Open() (err error) {
	if t.sweeping, err = link.AttachIter(link.IterOptions{Program: t.objects.Sweep}); err != nil {
		return fmt.Errorf("the kernel does not go through its sockets: %w", err)
	}
	return nil
}

// CloseTables ends what Open began, and the objects.
func (t *Tables) CloseTables() error {
	var failures []error
	if t.sweeping != nil {
		failures = append(failures, t.sweeping.Close())
	}
	for _, one := range []io.Closer{t.objects.Sweep, t.objects.Settings, t.objects.Caps, t.objects.Tallies} {
		failures = append(failures, one.Close())
	}
	return errors.Join(failures...)
}

// Capped tells how many pairs have a cap.
func (t *Tables) Capped() int { return len(t.caps) }

// Tend tells the programs that their agent lives.
func (t *Tables) Tend() error {
	t.Settings.TendedUntilNS = uint64(clock.Monotonic() + tendedFor)
	return t.put()
}

// Renew has caps hold for so long from now on.
func (t *Tables) Renew(lease time.Duration) error {
	t.Settings.LeaseUntilNS = uint64(clock.Monotonic() + lease)
	return t.put()
}

// Replace tells whether any cap is another now. What is in both orders is in force all the time.
func (t *Tables) Replace(caps map[Pair]Bounds) (changed bool, err error) {
	for each, now := range caps {
		if before, there := t.caps[each]; there && before == now {
			continue
		}
		if err := t.objects.Caps.Put(each, now); err != nil {
			return true, fmt.Errorf("a cap cannot be put: %w", err)
		}
		t.caps[each], changed = now, true
	}
	for each := range t.caps {
		if _, stays := caps[each]; stays {
			continue
		}
		if err := t.objects.Caps.Delete(each); err != nil {
			return true, fmt.Errorf("a cap cannot be taken away: %w", err)
		}
		delete(t.caps, each)
		changed = true
	}
	return changed, nil
}

// Sweep sees to the sockets of the namespace that it is called in.
func (t *Tables) Sweep() (Tally, error) {
	var found Tally
	t.Settings.Round++
	if err := errors.Join(t.put(), t.objects.Tallies.Put(uint32(0), found)); err != nil {
		return found, err
	}
	if err := Through(t.sweeping); err != nil {
		return found, err
	}
	return found, t.objects.Tallies.Lookup(uint32(0), &found)
}

func (t *Tables) put() error { return t.objects.Settings.Put(uint32(0), t.Settings) }

// Through has a program see all sockets of the namespace that it is called in.
func Through(sockets *link.Iter) error {
	reading, err := sockets.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reading)
	return errors.Join(err, reading.Close())
}

// Cookie is the number of the network namespace that it is called in.
func Cookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	netns, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("the network namespace has no number (Linux 5.14 is wanted): %w", err)
	}
	return netns, nil
}
