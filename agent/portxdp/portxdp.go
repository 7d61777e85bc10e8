// SPDX-License-Identifier: Apache-2.0

// Package portxdp attaches the XDP program of a site's agent to the ports of terminals, where packets arrive before the bridge
// sees them. A device takes one XDP program, so one program, bpf/terminal_port.bpf.c, serves all orders. It stays attached while
// any order needs it, and ends with the agent's process.
package portxdp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"bicast/internal/clock"
	"bicast/internal/portstate"
)

const (
	tickInterval = time.Second
	// LeastBytes is the packet size that every host must accept (RFC 791): the smallest announced MTU.
	LeastBytes = 576
)

// Programs manages the program at the ports of terminals.
type Programs struct {
	within func(func() error) error // runs a function in the ports' network namespace
	log    *slog.Logger

	mutex    sync.Mutex
	numbered []string
	fitted   []string
	largest  int
	program  *program // nil if unneeded, or if the kernel does not load it
	answers  *answers
	missing  portstate.Ports // by port: why there is no program, or nil
}

// New returns an executor without orders.
func New(within func(func() error) error, log *slog.Logger) *Programs {
	return &Programs{within: within, log: log, missing: portstate.Ports{}}
}

// Probe returns the reason why the kernel does not load the program, or nil.
func Probe() error {
	program, err := load()
	if err != nil {
		return err
	}
	return program.close()
}

// Number replaces the set of ports whose incoming packets get an IPv4 identification, so that they differ.
func (p *Programs) Number(ports []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.numbered = slices.Clone(ports)
	p.refresh()
}

// Fit replaces the set of ports with a limit for IP packets, at least LeastBytes. Senders of longer packets get an
// answer. 0 removes the limit.
func (p *Programs) Fit(ports []string, largestBytes int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fitted, p.largest = slices.Clone(ports), max(largestBytes, LeastBytes)
	if largestBytes == 0 {
		p.fitted = nil
	}
	p.refresh()
}

// Missing returns the ports without the program, and the reasons.
func (p *Programs) Missing() map[string]error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	missing := map[string]error{}
	for port, err := range p.missing {
		if err != nil {
			missing[port] = err
		}
	}
	return missing
}

// Run maintains the ports until the context ends. Then all packets pass unmodified.
func (p *Programs) Run(ctx context.Context) {
	clock.Every(ctx, tickInterval, p.Tick)
	if err := p.Close(); err != nil {
		p.log.Error("cannot unload the program at the ports of terminals", "reason", err)
	}
}

// Tick looks for ports that disappeared or returned.
func (p *Programs) Tick() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.refresh()
}

// Close detaches the program from every port and forgets all orders.
func (p *Programs) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.numbered, p.fitted = nil, nil
	return p.unload()
}

// refresh updates the ports. The caller holds the mutex.
func (p *Programs) refresh() {
	wanted := p.wanted()
	if len(wanted) == 0 {
		if err := p.unload(); err != nil {
			p.log.Warn("cannot unload the program at the ports of terminals", "reason", err)
		}
		return
	}
	err := p.within(func() error {
		if err := p.begin(); err != nil {
			return err
		}
		for port := range p.missing {
			if _, still := wanted[port]; !still {
				delete(p.missing, port)
				if err := p.program.leave(port); err != nil {
					p.log.Warn("cannot detach the program from a port", "port", port, "reason", err)
				}
			}
		}
		for port, what := range wanted {
			what.LongestBytes = mtuOf(port)
			p.setState(port, p.program.ensure(port, what))
		}
		return nil
	})
	if err == nil {
		return
	}
	for port := range wanted {
		p.setState(port, err)
	}
}

func (p *Programs) wanted() map[string]port {
	wanted := map[string]port{}
	for _, name := range p.numbered {
		wanted[name] = port{Number: 1}
	}
	for _, name := range p.fitted {
		what := wanted[name]
		what.LargestBytes = uint32(p.largest)
		wanted[name] = what
	}
	return wanted
}

// mtuOf returns the length of the longest IP packet that a port can receive.
func mtuOf(port string) uint32 {
	device, err := net.InterfaceByName(port)
	if err != nil {
		return 0
	}
	return uint32(device.MTU)
}

func (p *Programs) begin() (err error) {
	if p.program != nil {
		return nil
	}
	if p.program, err = load(); err != nil {
		return err
	}
	if p.answers, err = newAnswers(p.program.objects.Told, p.log); err != nil {
		return errors.Join(err, p.unload())
	}
	return nil
}

func (p *Programs) unload() (err error) {
	if p.answers != nil {
		err = p.answers.close()
	}
	if p.program != nil {
		err = errors.Join(err, p.program.close())
	}
	p.program, p.answers = nil, nil
	clear(p.missing)
	return err
}

// setState logs a change of a port's state.
func (p *Programs) setState(port string, err error) {
	p.missing.Found(port, err, p.log, portstate.Words{Lost: "a port of terminals has no XDP program", Back: "a port of terminals has its XDP program again"})
}
