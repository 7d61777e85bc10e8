package eliminate

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

//go:embed stamp.bpf.o
var stampObject []byte

// Stamper numbers what is going to be copied, where copies begin: bpf/stamp.bpf.c.
type Stamper struct {
	objects struct {
		Program *ebpf.Program `ebpf:"stamp"`
		Number  *ebpf.Map     `ebpf:"number"`
	}
	ports ports
}

// LoadStamper makes one counter for all the devices that it will be attached to.
func LoadStamper() (*Stamper, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(stampObject))
	if err != nil {
		return nil, fmt.Errorf("the program that numbers packets cannot be read: %w", err)
	}
	s := &Stamper{}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel does not take the program that numbers packets (%s): %w", wanted, err)
	}
	s.ports = newPorts(s.objects.Program)
	return s, nil
}

// Stand numbers what comes in by a port, which may have gone and come back since.
func (s *Stamper) Stand(port string) error {
	_, _, err := s.ports.stand(port)
	return err
}

// Close takes the program from every port.
func (s *Stamper) Close() error {
	return errors.Join(s.ports.Close(), s.objects.Program.Close(), s.objects.Number.Close())
}
