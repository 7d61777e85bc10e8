// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"bicast/internal/claim"
)

// attacher attaches programs to what a device sends and receives, until the result is closed.
type attacher func(device *net.Interface, sends, comes *ebpf.Program) (attached, error)

type attached interface {
	io.Closer
	inPlace() bool // false: another process has removed them
}

// ports holds the devices, by name, to which the programs are attached.
type ports struct {
	programs *programs
	attach   attacher
	at       map[string]attachment
}

type attachment struct {
	index  int
	claim  io.Closer
	handle attached
}

func (s attachment) close() error { return errors.Join(s.handle.Close(), s.claim.Close()) }

func newPorts(programs *programs, attach attacher) *ports {
	if attach == nil {
		attach = attachBest
	}
	return &ports{programs, attach, map[string]attachment{}}
}

// ensure attaches the programs to the device that currently has this name.
func (p *ports) ensure(name string) error {
	current, exists := p.at[name]
	device, err := net.InterfaceByName(name)
	if err == nil && exists && current.index == device.Index && current.handle.inPlace() {
		return nil
	}
	if exists {
		current.close() // the device has gone with the programs, or another process removed them
		delete(p.at, name)
	}
	if err != nil {
		return fmt.Errorf("the network device %s does not exist", name)
	}
	claimed, err := claim.Take("window/"+device.Name, "lowers windows at "+device.Name)
	if err != nil {
		return err
	}
	handle, err := p.attach(device, p.programs.objects.Lower, p.programs.objects.Watch)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot attach tc programs to %s (they need %s): %w", name, needed, err), claimed.Close())
	}
	p.at[name] = attachment{device.Index, claimed, handle}
	return nil
}

func (p *ports) leave(name string) error {
	current, exists := p.at[name]
	if !exists {
		return nil
	}
	delete(p.at, name)
	return current.close()
}

func (p *ports) close() error {
	var failures []error
	for _, each := range p.at {
		failures = append(failures, each.close())
	}
	clear(p.at)
	return errors.Join(failures...)
}

// attachBest prefers links, which end with this process.
func attachBest(device *net.Interface, sends, comes *ebpf.Program) (attached, error) {
	both, err := attachLinks(device, sends, comes)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return attachFilters(device, sends, comes)
	}
	return both, err
}

// links are tcx links. They end with this process.
type links []link.Link

func (l links) inPlace() bool { return true }

func (l links) Close() error {
	var failures []error
	for _, each := range l {
		failures = append(failures, each.Close())
	}
	return errors.Join(failures...)
}

// attachLinks attaches before all other programs, whose verdicts could hide packets. These programs return no
// verdict.
func attachLinks(device *net.Interface, sends, comes *ebpf.Program) (attached, error) {
	var both links
	for _, each := range []link.TCXOptions{
		{Program: sends, Attach: ebpf.AttachTCXEgress}, {Program: comes, Attach: ebpf.AttachTCXIngress},
	} {
		each.Interface, each.Anchor = device.Index, link.Head()
		one, err := link.AttachTCX(each)
		if err != nil {
			return nil, errors.Join(err, both.Close())
		}
		both = append(both, one)
	}
	return both, nil
}
