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

// NoPace means no limit to a socket's pacing rate.
const NoPace = ^uint32(0)

// NameBytes is the size of a congestion control's name, with its NUL (TCP_CA_NAME_MAX).
const NameBytes = 16

// The contents of the maps, as in bpf/cwnd.h.
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
		Reason        int32
	}
)

// Objects are the programs and maps that all executors share, by their names in bpf/cwnd_bounds.h.
type Objects struct {
	Sweep    *ebpf.Program `ebpf:"sweep"`
	Settings *ebpf.Map     `ebpf:"settings"`
	Caps     *ebpf.Map     `ebpf:"caps"`
	Tallies  *ebpf.Map     `ebpf:"tallies"`
}

// Tables are the caps of a network namespace in the maps of its programs.
type Tables struct {
	Settings Settings
	objects  *Objects
	caps     map[Pair]Bounds
	sweeping *link.Iter
}

// NewTables returns empty tables.
func NewTables(objects *Objects) Tables { return Tables{objects: objects, caps: map[Pair]Bounds{}} }

// Open prepares the iteration over the kernel's sockets.
func (t *Tables) Open() (err error) {
	if t.sweeping, err = link.AttachIter(link.IterOptions{Program: t.objects.Sweep}); err != nil {
		return fmt.Errorf("cannot iterate over the kernel's sockets: %w", err)
	}
	return nil
}

// CloseTables closes the iterator and the objects.
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

// Capped returns the number of pairs with a cap.
func (t *Tables) Capped() int { return len(t.caps) }

// Heartbeat tells the programs that their agent is alive.
func (t *Tables) Heartbeat() error {
	t.Settings.TendedUntilNS = uint64(clock.Monotonic() + heartbeatLease)
	return t.put()
}

// Renew extends the lease of all caps.
func (t *Tables) Renew(lease time.Duration) error {
	t.Settings.LeaseUntilNS = uint64(clock.Monotonic() + lease)
	return t.put()
}

// Replace replaces the caps and reports whether any changed. Caps in both orders stay in force throughout.
func (t *Tables) Replace(caps map[Pair]Bounds) (changed bool, err error) {
	for each, now := range caps {
		if before, there := t.caps[each]; there && before == now {
			continue
		}
		if err := t.objects.Caps.Put(each, now); err != nil {
			return true, fmt.Errorf("cannot set a cap: %w", err)
		}
		t.caps[each], changed = now, true
	}
	for each := range t.caps {
		if _, stays := caps[each]; stays {
			continue
		}
		if err := t.objects.Caps.Delete(each); err != nil {
			return true, fmt.Errorf("cannot remove a cap: %w", err)
		}
		delete(t.caps, each)
		changed = true
	}
	return changed, nil
}

// Sweep applies the caps to all sockets of the calling thread's network namespace.
func (t *Tables) Sweep() (Tally, error) {
	var found Tally
	t.Settings.Round++
	if err := errors.Join(t.put(), t.objects.Tallies.Put(uint32(0), found)); err != nil {
		return found, err
	}
	if err := ForEachSocket(t.sweeping); err != nil {
		return found, err
	}
	return found, t.objects.Tallies.Lookup(uint32(0), &found)
}

func (t *Tables) put() error { return t.objects.Settings.Put(uint32(0), t.Settings) }

// ForEachSocket runs an iterator program on all sockets of the calling thread's network namespace.
func ForEachSocket(sockets *link.Iter) error {
	reading, err := sockets.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reading)
	return errors.Join(err, reading.Close())
}

// Cookie returns the cookie of the calling thread's network namespace.
func Cookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	netns, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("cannot read the network namespace's cookie (needs Linux 5.14): %w", err)
	}
	return netns, nil
}
