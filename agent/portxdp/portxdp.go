// SPDX-License-Identifier: Apache-2.0

// Package portxdp attaches the XDP program of a site's agent to the ports of terminals, where packets arrive before the bridge
// sees them. A device has room for one XDP program, and more than one order may want something of it: the program is one,
// bpf/terminal_port.bpf.c, and is attached as long as any order wants anything.
//
// It ends with the process that loaded it, however that ends.
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
	tendEvery = time.Second
	// LeastBytes is what every host must take (RFC 791): nobody is told of less.
	LeastBytes = 576
)

// Programs are what is wanted at the ports of terminals.
type Programs struct {
	within func(func() error) error // runs in the namespace of the ports
	log    *slog.Logger

	mutex    sync.Mutex
	numbered []string
	fitted   []string
	largest  int
	program  *program // nil: nothing is wanted, or the kernel does not take it
	answers  *answers
	missing  portstate.Ports // of what is wanted: why there is no program; nil where it stands
}

// New wants nothing yet.
func New(within func(func() error) error, log *slog.Logger) *Programs {
	return &Programs{within: within, log: log, missing: portstate.Ports{}}
}

// Probe tells why this kernel does not take the program; nil where it does.
func Probe() error {
	program, err := load()
	if err != nil {
		return err
	}
	return program.close()
}

// Number makes the packets that come in by these ports, and no others, differ from one another.
func (p *Programs) Number(ports []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.numbered = slices.Clone(ports)
	p.tend()
}

// Fit tells who sends by these ports, and no others, how long IP packets may be: at least LeastBytes, and with 0 as long
// as they like.
func (p *Programs) Fit(ports []string, largestBytes int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fitted, p.largest = slices.Clone(ports), max(largestBytes, LeastBytes)
	if largestBytes == 0 {
		p.fitted = nil
	}
	p.tend()
}

// Missing is why there is no program at ports where one is wanted.
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

// Run sees to the ports until the context ends, and then lets everything pass as it is.
func (p *Programs) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, p.Tend)
	if err := p.Close(); err != nil {
		p.log.Error("the program at the ports of terminals did not end well", "because", err)
	}
}

// Tend looks for the ports, which may have gone and come back.
func (p *Programs) Tend() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.tend()
}

// Close takes the program from every port, and wants nothing more.
func (p *Programs) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.numbered, p.fitted = nil, nil
	return p.let()
}

// Under the mutex.
func (p *Programs) tend() {
	wanted := p.wanted()
	if len(wanted) == 0 {
		if err := p.let(); err != nil {
			p.log.Warn("the program at the ports of terminals did not end well", "because", err)
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
					p.log.Warn("the program did not leave a port well", "port", port, "because", err)
				}
			}
		}
		for port, what := range wanted {
			what.LongestBytes = longest(port)
			p.found(port, p.program.stand(port, what))
		}
		return nil
	})
	if err == nil {
		return
	}
	for port := range wanted {
		p.found(port, err)
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

// longest is of the IP packets that a port's wire brings.
func longest(port string) uint32 {
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
		return errors.Join(err, p.let())
	}
	return nil
}

func (p *Programs) let() (err error) {
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

// found says once what has changed.
func (p *Programs) found(port string, err error) {
	p.missing.Found(port, err, p.log, portstate.Words{Lost: "packets of terminals pass as they are here", Back: "the port of terminals is there"})
}
