// SPDX-License-Identifier: Apache-2.0

// Package elimination passes the first of several copies of a packet and drops the others at the uplinks' ports: the program is
// bpf/eliminate.bpf.c, which says what a copy is.
//
// The program ends with the process that loaded it, however that ends: nothing is pinned. While the process stands still
// it eliminates on until its lease is over, and then lets everything pass.
package elimination

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"bicast/internal/xdp"
)

//go:embed eliminate.bpf.o
var object []byte

const (
	// PathsMost is how many paths can bring copies of one packet.
	PathsMost = 8

	ways    = 4       // identities in a bucket
	atFirst = 1 << 10 // buckets in use: 136 KiB, which stay in a processor's own cache
)

// The maps' contents: bpf/eliminate.h.
type settings struct {
	WindowNS     uint64
	LeaseUntilNS uint64
	Secret       [2]uint64
	BucketsMask  uint32
	Devices      [PathsMost]uint32
	Everyone     uint32
	MACs         [PathsMost]mac
}

// mac is a MAC address with what makes it a word.
type mac struct {
	Bytes [6]byte
	_     [2]byte
}

func macOf(address net.HardwareAddr) (mac, error) {
	var m mac
	if len(address) != len(m.Bytes) {
		return m, fmt.Errorf("the MAC address %q has %d bytes, expected %d", address, len(address), len(m.Bytes))
	}
	copy(m.Bytes[:], address)
	return m, nil
}

// Counters are of one path.
type Counters struct {
	First        uint64 // passed: nobody had brought it before, so this path won
	Eliminated   uint64
	Late         uint64 // passed: another path had brought it, longer ago than the window
	Rogue        uint64 // passed: this path itself had brought it within the window
	Evicted      uint64 // won by this path, and forgotten for want of room before all had brought it
	Unidentified uint64 // passed: too long, with IPv4 options, or what no receiver takes
	NotForwarded uint64 // passed: no IP, not for the port's MAC address, or near the end of its hop limit
	Skew         skews  // of copies and late ones: [n] came 2^n to 2^(n+1) ns after the first
}

// Eliminator is the program and what it remembers, shared by all the devices that it is attached to.
type Eliminator struct {
	objects struct {
		Program  *ebpf.Program `ebpf:"eliminate"`
		Settings *ebpf.Map     `ebpf:"settings"`
		Seen     *ebpf.Map     `ebpf:"seen"`
		Counts   *ebpf.Map     `ebpf:"counts"`
	}
	settings settings
	buckets  uint32
	evicted  uint64 // when it was looked at last
	ports    xdp.Ports
}

// Load makes room for so many identities at least, in a power of two; 34 bytes each. As much of it is used as there is need
// of (Grow).
func Load(identities int) (*Eliminator, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the program that eliminates copies cannot be read: %w", err)
	}
	e := &Eliminator{buckets: 1 << bits.Len(uint(max(identities/ways, 1)-1))}
	spec.Maps["seen"].MaxEntries = e.buckets
	e.settings.BucketsMask = min(e.buckets, atFirst) - 1
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, err
	}
	e.settings.Secret = [2]uint64{binary.NativeEndian.Uint64(secret[:]), binary.NativeEndian.Uint64(secret[8:])}
	if err := spec.LoadAndAssign(&e.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the program that eliminates copies (%s): %w", xdp.Wanted, err)
	}
	e.ports = xdp.NewPorts(e.objects.Program)
	return e, nil
}

// Close takes the program from every device.
func (e *Eliminator) Close() error {
	failures := []error{e.ports.Close()}
	for _, one := range []interface{ Close() error }{
		e.objects.Program, e.objects.Settings, e.objects.Seen, e.objects.Counts,
	} {
		failures = append(failures, one.Close())
	}
	return errors.Join(failures...)
}

// Attach has what comes in by a port for a MAC address count as brought by a path, from 0 on. Without an address it is the
// device's own. The port may have gone and come back since, or have another address.
func (e *Eliminator) Attach(port string, path uint32, address net.HardwareAddr) error {
	index, _, err := e.ports.Attach(port)
	if err != nil {
		return errors.Join(err, e.at(index, path, mac{}))
	}
	if address == nil {
		device, err := net.InterfaceByIndex(int(index))
		if err != nil {
			return errors.Join(fmt.Errorf("the network device %s cannot be read: %w", port, err), e.at(0, path, mac{}))
		}
		address = device.HardwareAddr
	}
	wanted, err := macOf(address)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", port, err), e.at(0, path, mac{}))
	}
	return e.at(index, path, wanted)
}

// at says which device brings a path's packets, and to which MAC address they are sent; 0: none does.
func (e *Eliminator) at(index, path uint32, address mac) error {
	if e.settings.Devices[path] == index && e.settings.MACs[path] == address {
		return nil
	}
	e.settings.Devices[path], e.settings.MACs[path] = index, address
	e.settings.Everyone &^= 1 << path
	if index != 0 {
		e.settings.Everyone |= 1 << path
	}
	return e.objects.Settings.Put(uint32(0), e.settings)
}

// Native tells whether the port's own driver runs the program, or the kernel does after it.
func (e *Eliminator) Native(port string) bool { return e.ports.Native(port) }

// Renew says within how long after the first a packet is a copy, and for how long from now on anything is eliminated.
func (e *Eliminator) Renew(window, lease time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	e.settings.WindowNS = uint64(window)
	e.settings.LeaseUntilNS = uint64(now.Nano() + int64(lease))
	return e.objects.Settings.Put(uint32(0), e.settings)
}

// Grow puts twice the room in use, as far as it goes, when what was remembered had to be forgotten since the last time.
// Of half of what is on its way just then, copies pass. The next Renew brings it about.
func (e *Eliminator) Grow(counters [PathsMost]Counters) {
	var evicted uint64
	for _, each := range counters {
		evicted += each.Evicted
	}
	if evicted > e.evicted && e.settings.BucketsMask < e.buckets-1 {
		e.settings.BucketsMask = e.settings.BucketsMask<<1 | 1
	}
	e.evicted = evicted
}

// Counters are those of each path.
func (e *Eliminator) Counters() ([PathsMost]Counters, error) {
	var total [PathsMost]Counters
	for path := range total {
		var each []Counters // of each processor
		if err := e.objects.Counts.Lookup(uint32(path), &each); err != nil {
			return total, err
		}
		for _, one := range each {
			total[path].add(one)
		}
	}
	return total, nil
}

func (c *Counters) add(o Counters) {
	c.First += o.First
	c.Eliminated += o.Eliminated
	c.Late += o.Late
	c.Rogue += o.Rogue
	c.Evicted += o.Evicted
	c.Unidentified += o.Unidentified
	c.NotForwarded += o.NotForwarded
	for step := range c.Skew {
		c.Skew[step] += o.Skew[step]
	}
}
