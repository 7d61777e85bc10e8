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

// attacher has programs see what a device sends and what comes in there, until what it gives is closed.
type attacher func(device *net.Interface, sends, comes *ebpf.Program) (attached, error)

type attached interface {
	io.Closer
	stays() bool // false: somebody else has taken them away
}

// ports are the devices, by name, at which the programs stand.
type ports struct {
	programs *programs
	attach   attacher
	at       map[string]attachment
}

type attachment struct {
	index int
	claim io.Closer
	works attached
}

func (s attachment) close() error { return errors.Join(s.works.Close(), s.claim.Close()) }

func newPorts(programs *programs, attach attacher) *ports {
	if attach == nil {
		attach = attachAsKernelCan
	}
	return &ports{programs, attach, map[string]attachment{}}
}

// stand sees to it that the programs are at the device that has this name now.
func (p *ports) stand(name string) error {
	stood, stands := p.at[name]
	device, err := net.InterfaceByName(name)
	if err == nil && stands && stood.index == device.Index && stood.works.stays() {
		return nil
	}
	if stands {
		stood.close() // its device has gone, and took the programs with it, or somebody took them from there
		delete(p.at, name)
	}
	if err != nil {
		return fmt.Errorf("there is no network device %s here", name)
	}
	claimed, err := claim.Take("window/"+device.Name, "lowers windows at "+device.Name)
	if err != nil {
		return err
	}
	works, err := p.attach(device, p.programs.objects.Lower, p.programs.objects.Watch)
	if err != nil {
		return errors.Join(fmt.Errorf("%s takes no tc program (%s): %w", name, needed, err), claimed.Close())
	}
	p.at[name] = attachment{device.Index, claimed, works}
	return nil
}

func (p *ports) leave(name string) error {
	stood, stands := p.at[name]
	if !stands {
		return nil
	}
	delete(p.at, name)
	return stood.close()
}

func (p *ports) close() error {
	var failures []error
	for _, each := range p.at {
		failures = append(failures, each.close())
	}
	clear(p.at)
	return errors.Join(failures...)
}

// attachAsKernelCan prefers what ends with this process.
func attachAsKernelCan(device *net.Interface, sends, comes *ebpf.Program) (attached, error) {
	both, err := attachLinks(device, sends, comes)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return attachFilters(device, sends, comes)
	}
	return both, err
}

// links end with this process.
type links []link.Link

func (l links) stays() bool { return true }

func (l links) Close() error {
	var failures []error
	for _, each := range l {
		failures = append(failures, each.Close())
	}
	return errors.Join(failures...)
}

// attachLinks stands before all others: their verdicts would hide packets, and these programs give none.
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
