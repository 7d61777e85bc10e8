// SPDX-License-Identifier: Apache-2.0

// Package xdp attaches a program to network devices that are known by name and that come and go.
package xdp

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Wanted is of the kernel and of who asks it.
const Wanted = "XDP, Linux 5.18, CAP_BPF and CAP_NET_ADMIN are wanted"

// Ports are the devices, by name, on which a program stands.
type Ports struct {
	program *ebpf.Program
	at      map[string]attachment
}

type attachment struct {
	index  uint32
	link   link.Link
	native bool
}

// NewPorts are none yet.
func NewPorts(program *ebpf.Program) Ports { return Ports{program, map[string]attachment{}} }

// Attach attaches the program to the device that currently has this name. It returns its index and that of the
// device to which it was attached before; 0 where there is or was none.
func (p *Ports) Attach(name string) (index, before uint32, err error) {
	stood := p.at[name]
	device, err := net.InterfaceByName(name)
	if err == nil && stood.index == uint32(device.Index) {
		return stood.index, stood.index, nil
	}
	if stood.link != nil {
		stood.link.Close() // its device has gone, and took the program with it
		delete(p.at, name)
	}
	if err != nil {
		return 0, stood.index, fmt.Errorf("there is no network device %s here", name)
	}
	now, err := attach(p.program, device)
	if err != nil {
		return 0, stood.index, err
	}
	p.at[name] = now
	return now.index, stood.index, nil
}

// Native tells whether the port's own driver runs the program, or the kernel does after it.
func (p *Ports) Native(name string) bool { return p.at[name].native }

// Detach detaches the program from a device and returns the index of it; 0: it was not attached.
func (p *Ports) Detach(name string) (index uint32, err error) {
	stood, there := p.at[name]
	if !there {
		return 0, nil
	}
	delete(p.at, name)
	return stood.index, stood.link.Close()
}

// Close takes the program from every device.
func (p *Ports) Close() error {
	var failures []error
	for _, each := range p.at {
		failures = append(failures, each.link.Close())
	}
	clear(p.at)
	return errors.Join(failures...)
}

// attach has a device's own driver run a program on what comes in (native), or, where it cannot, the kernel after it. The
// kernel takes it away when this process ends, however that ends.
func attach(program *ebpf.Program, device *net.Interface) (attachment, error) {
	options := link.XDPOptions{Program: program, Interface: device.Index, Flags: link.XDPDriverMode}
	attached, err := link.AttachXDP(options)
	native := err == nil
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) || errors.Is(err, ebpf.ErrNotSupported) {
		options.Flags = link.XDPGenericMode
		attached, err = link.AttachXDP(options)
	}
	switch {
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST):
		return attachment{}, fmt.Errorf("%s has an XDP program already, another agent's or somebody else's: end that (`ip link show %s` "+
			"names it)", device.Name, device.Name)
	case err != nil:
		return attachment{}, fmt.Errorf("%s takes no XDP program (%s): %w", device.Name, Wanted, err)
	}
	return attachment{uint32(device.Index), attached, native}, nil
}
