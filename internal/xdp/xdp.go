// SPDX-License-Identifier: Apache-2.0

// Package xdp attaches a program to network devices by name, as they appear and disappear.
package xdp

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Wanted names the requirements, for errors.
const Wanted = "XDP, Linux 5.18, CAP_BPF and CAP_NET_ADMIN are required"

// Ports are the devices, by name, with the program attached.
type Ports struct {
	program *ebpf.Program
	at      map[string]attachment
}

type attachment struct {
	index  uint32
	link   link.Link
	native bool
}

// NewPorts returns an empty set.
func NewPorts(program *ebpf.Program) Ports { return Ports{program, map[string]attachment{}} }

// Attach attaches the program to the device that currently has this name. It returns the indexes of this device and of
// the one that had the name before; 0 means none.
func (p *Ports) Attach(name string) (index, before uint32, err error) {
	current := p.at[name]
	device, err := net.InterfaceByName(name)
	if err == nil && current.index == uint32(device.Index) {
		return current.index, current.index, nil
	}
	if current.link != nil {
		current.link.Close() // its device is gone, and the program with it
		delete(p.at, name)
	}
	if err != nil {
		return 0, current.index, fmt.Errorf("there is no network device %s here", name)
	}
	now, err := attach(p.program, device)
	if err != nil {
		return 0, current.index, err
	}
	p.at[name] = now
	return now.index, current.index, nil
}

// Native reports whether the port's driver runs the program, rather than the generic layer above it.
func (p *Ports) Native(name string) bool { return p.at[name].native }

// Detach detaches the program and returns the device's index, or 0 if it was not attached.
func (p *Ports) Detach(name string) (index uint32, err error) {
	current, there := p.at[name]
	if !there {
		return 0, nil
	}
	delete(p.at, name)
	return current.index, current.link.Close()
}

// Close detaches the program from every device.
func (p *Ports) Close() error {
	var failures []error
	for _, each := range p.at {
		failures = append(failures, each.link.Close())
	}
	clear(p.at)
	return errors.Join(failures...)
}

// attach attaches a program in the driver (native mode), or in the kernel's generic mode if the driver lacks support.
// The kernel detaches it when this process ends.
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
		return attachment{}, fmt.Errorf("%s has an XDP program already, of an agent or another program: stop it (`ip link show %s` "+
			"names it)", device.Name, device.Name)
	case err != nil:
		return attachment{}, fmt.Errorf("%s accepts no XDP program (%s): %w", device.Name, Wanted, err)
	}
	return attachment{uint32(device.Index), attached, native}, nil
}
