package eliminate

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:embed stamp.bpf.o
var stampObject []byte

// Stamper numbers what is going to be copied, where copies begin: bpf/stamp.bpf.c.
type Stamper struct {
	objects struct {
		Program *ebpf.Program `ebpf:"stamp"`
		Number  *ebpf.Map     `ebpf:"number"`
	}
	links map[int]link.Link // by interface index
}

// LoadStamper makes one counter for all the devices that it will be attached to.
func LoadStamper() (*Stamper, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(stampObject))
	if err != nil {
		return nil, fmt.Errorf("the program that numbers packets cannot be read: %w", err)
	}
	s := &Stamper{links: map[int]link.Link{}}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the program that numbers packets (%s): %w", wanted, err)
	}
	return s, nil
}

// Attach numbers what comes in by a device.
func (s *Stamper) Attach(device *net.Interface) (native bool, err error) {
	attached, native, err := attach(s.objects.Program, device)
	if err == nil {
		s.links[device.Index] = attached
	}
	return native, err
}

// Close takes the program from every device.
func (s *Stamper) Close() error {
	failures := []error{s.objects.Program.Close(), s.objects.Number.Close()}
	for _, attached := range s.links {
		failures = append(failures, attached.Close())
	}
	return errors.Join(failures...)
}
