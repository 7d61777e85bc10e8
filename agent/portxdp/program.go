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

// The maps' contents: bpf/terminal_port.h.
type port struct {
	Number       uint32
	LargestBytes uint32
	LongestBytes uint32
	_            uint32
	DueNS        uint64
}

// program stands at ports, and does at each what is wanted there.
type program struct {
	objects struct {
		Program *ebpf.Program `ebpf:"inside"`
		Ports   *ebpf.Map     `ebpf:"ports"`
		Number  *ebpf.Map     `ebpf:"number"`
		Told    *ebpf.Map     `ebpf:"told"`
	}
	ports xdp.Ports
	said  map[uint32]port // what is wanted, as the program knows it, by device
	key   [2]uint64       // of the numbers that packets get
}

func load() (*program, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the program for the ports of terminals cannot be read: %w", err)
	}
	p := &program{said: map[uint32]port{}}
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return nil, err
	}
	p.key = [2]uint64{binary.NativeEndian.Uint64(key[:]), binary.NativeEndian.Uint64(key[8:])}
	if err := spec.Variables["numbering_key"].Set(p.key); err != nil {
		return nil, fmt.Errorf("the program for the ports of terminals takes no key: %w", err)
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the program for the ports of terminals (%s): %w", xdp.Wanted, err)
	}
	p.ports = xdp.NewPorts(p.objects.Program)
	return p, nil
}

// stand has what comes in by a port treated so; the port may have gone and come back since.
func (p *program) stand(name string, wanted port) error {
	index, before, err := p.ports.Attach(name)
	if before != 0 && before != index {
		err = errors.Join(err, p.forget(before))
	}
	if index == 0 {
		return err
	}
	return errors.Join(err, p.say(index, wanted))
}

// say is not done again where nothing changes: it begins the count of answers anew.
func (p *program) say(index uint32, wanted port) error {
	if known, there := p.said[index]; there && known == wanted {
		return nil
	}
	if err := p.objects.Ports.Put(index, wanted); err != nil {
		return fmt.Errorf("the program cannot be told what is wanted: %w", err)
	}
	p.said[index] = wanted
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
	if _, there := p.said[index]; !there {
		return nil
	}
	delete(p.said, index)
	return p.objects.Ports.Delete(index)
}

func (p *program) close() error {
	return errors.Join(p.ports.Close(), p.objects.Program.Close(), p.objects.Ports.Close(), p.objects.Number.Close(),
		p.objects.Told.Close())
}
