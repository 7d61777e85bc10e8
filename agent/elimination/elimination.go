// SPDX-License-Identifier: Apache-2.0

// Package elimination passes the first copy of each packet at the uplinks' ports and drops the others. bpf/eliminate.bpf.c
// defines a copy.
//
// Nothing is pinned, so the program ends with the process that loaded it. If the process hangs, the program eliminates
// until its lease ends, and then passes everything.
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
	// MaxPaths is the maximum number of paths with copies of one packet.
	MaxPaths = 8

	ways           = 3       // identities per bucket
	initialBuckets = 1 << 11 // buckets in use: 128 KiB, which fit into the cache of a processor
)

// settings is the content of the map of the same name (bpf/eliminate.h).
type settings struct {
	WindowNS     uint64
	LeaseUntilNS uint64
	Secret       [2]uint64
	BucketsMask  uint32
	Devices      [MaxPaths]uint32
	Everyone     uint32
	MACs         [MaxPaths]mac
}

// mac is a MAC address, padded to eight bytes.
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

// Counters are the packets of one path.
type Counters struct {
	First        uint64 // passed: the first copy
	Eliminated   uint64
	Late         uint64 // passed: a copy of another path's packet, later than the window
	Rogue        uint64 // passed: a repetition on the same path within the window
	Evicted      uint64 // first copies of this path whose identities were evicted before all copies arrived
	Unidentified uint64 // passed: too long, with IPv4 options, or malformed
	NotForwarded uint64 // passed: not IP, not for the port's MAC address, or with an almost exhausted hop limit
	Skew         skews  // histogram of copies, also late ones: [n] arrived 2^n to 2^(n+1) ns after the first
}

// Eliminator is the program with its maps, shared by all devices that it is attached to.
type Eliminator struct {
	objects struct {
		Program  *ebpf.Program `ebpf:"eliminate"`
		Settings *ebpf.Map     `ebpf:"settings"`
		Seen     *ebpf.Map     `ebpf:"seen"`
		Counts   *ebpf.Map     `ebpf:"counts"`
	}
	settings settings
	buckets  uint32
	evicted  uint64 // at the last Grow
	ports    xdp.Ports
}

// Load loads the program with room for at least this many identities, three in 64 bytes, rounded up to a power of two. Grow
// takes more of the room into use.
func Load(identities int) (*Eliminator, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the program that eliminates copies: %w", err)
	}
	e := &Eliminator{buckets: 1 << bits.Len(uint(max((identities+ways-1)/ways, 1)-1))}
	spec.Maps["seen"].MaxEntries = e.buckets
	e.settings.BucketsMask = min(e.buckets, initialBuckets) - 1
	var secret [16]byte
	keys := make([]byte, spec.Variables["pair_keys"].Size())
	for _, each := range [][]byte{secret[:], keys} {
		if _, err := rand.Read(each); err != nil {
			return nil, err
		}
	}
	e.settings.Secret = [2]uint64{binary.NativeEndian.Uint64(secret[:]), binary.NativeEndian.Uint64(secret[8:])}
	if err := spec.Variables["pair_keys"].Set(keys); err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&e.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not load the program that eliminates copies (%s): %w", xdp.Wanted, err)
	}
	e.ports = xdp.NewPorts(e.objects.Program)
	return e, nil
}

// Close detaches the program from every device.
func (e *Eliminator) Close() error {
	failures := []error{e.ports.Close()}
	for _, one := range []interface{ Close() error }{
		e.objects.Program, e.objects.Settings, e.objects.Seen, e.objects.Counts,
	} {
		failures = append(failures, one.Close())
	}
	return errors.Join(failures...)
}

// Attach counts packets that arrive at a port for a MAC address as packets of a path. Paths count from 0. The default
// address is the device's own. Attach again after the device was replaced or got another address.
func (e *Eliminator) Attach(port string, path uint32, address net.HardwareAddr) error {
	index, _, err := e.ports.Attach(port)
	if err != nil {
		return errors.Join(err, e.at(index, path, mac{}))
	}
	if address == nil {
		device, err := net.InterfaceByIndex(int(index))
		if err != nil {
			return errors.Join(fmt.Errorf("cannot read the network device %s: %w", port, err), e.at(0, path, mac{}))
		}
		address = device.HardwareAddr
	}
	wanted, err := macOf(address)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", port, err), e.at(0, path, mac{}))
	}
	return e.at(index, path, wanted)
}

// at sets the device and the destination MAC address of a path's packets. Index 0 means none.
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

// Native reports whether the port's driver runs the program, instead of the kernel after the driver.
func (e *Eliminator) Native(port string) bool { return e.ports.Native(port) }

// Renew sets the window after the first packet in which copies are dropped, and the lease of the program from now on.
func (e *Eliminator) Renew(window, lease time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	e.settings.WindowNS = uint64(window)
	e.settings.LeaseUntilNS = uint64(now.Nano() + int64(lease))
	return e.objects.Settings.Put(uint32(0), e.settings)
}

// Grow doubles the room in use, up to the maximum, if identities were evicted since the last call. Copies of half of the
// packets in flight then pass. The next Renew applies the change.
func (e *Eliminator) Grow(counters [MaxPaths]Counters) {
	var evicted uint64
	for _, each := range counters {
		evicted += each.Evicted
	}
	if evicted > e.evicted && e.settings.BucketsMask < e.buckets-1 {
		e.settings.BucketsMask = e.settings.BucketsMask<<1 | 1
	}
	e.evicted = evicted
}

// Counters returns the counters of each path.
func (e *Eliminator) Counters() ([MaxPaths]Counters, error) {
	var total [MaxPaths]Counters
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
