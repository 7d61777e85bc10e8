// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"bicast/internal/xdp"
)

//go:embed terminal_port.bpf.o
var object []byte

// The contents of the map, as in bpf/terminal_port.h.
type port struct {
	Number       uint32
	LargestBytes uint32
	LongestBytes uint32
	_            uint32
	DueNS        uint64
}

// program is attached to ports and follows the settings of each.
type program struct {
	objects struct {
		Program *ebpf.Program `ebpf:"inside"`
		Ports   *ebpf.Map     `ebpf:"ports"`
		Number  *ebpf.Map     `ebpf:"number"`
		Told    *ebpf.Map     `ebpf:"told"`
	}
	ports    xdp.Ports
	settings map[uint32]port // contents of the map, by device
	key      [2]uint64       // for the identifications of packets
}

func load() (*program, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("cannot read the program for the ports of terminals: %w", err)
	}
	p := &program{settings: map[uint32]port{}}
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return nil, err
	}
	p.key = [2]uint64{binary.NativeEndian.Uint64(key[:]), binary.NativeEndian.Uint64(key[8:])}
	if err := spec.Variables["numbering_key"].Set(p.key); err != nil {
		return nil, fmt.Errorf("cannot set the key of the program for the ports of terminals: %w", err)
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not load the program for the ports of terminals (%s): %w", xdp.Wanted, err)
	}
	p.ports = xdp.NewPorts(p.objects.Program)
	return p, nil
}

// ensure attaches the program to the port that currently has this name, with these settings.
func (p *program) ensure(name string, wanted port) error {
	index, before, err := p.ports.Attach(name)
	if before != 0 && before != index {
		err = errors.Join(err, p.forget(before))
	}
	if index == 0 {
		return err
	}
	return errors.Join(err, p.setPort(index, wanted))
}

// setPort writes changed settings only, because a write resets the rate limit of answers.
func (p *program) setPort(index uint32, wanted port) error {
	if known, there := p.settings[index]; there && known == wanted {
		return nil
	}
	if err := p.objects.Ports.Put(index, wanted); err != nil {
		return fmt.Errorf("cannot write the settings of a port: %w", err)
	}
	p.settings[index] = wanted
	return nil
}

func (p *program) leave(name string) error {
	index, err := p.ports.Detach(name)
	if index == 0 {
		return err
	}
	return errors.Join(err, p.forget(index))
}

func (p *program) forget(index uint32) error {
	if _, there := p.settings[index]; !there {
		return nil
	}
	delete(p.settings, index)
	return p.objects.Ports.Delete(index)
}

func (p *program) close() error {
	return errors.Join(p.ports.Close(), p.objects.Program.Close(), p.objects.Ports.Close(), p.objects.Number.Close(),
		p.objects.Told.Close())
}
