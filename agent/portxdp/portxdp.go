// Package portxdp attaches the XDP program of a site's agent to the ports of terminals, where packets arrive before the bridge
// sees them. A device has room for one XDP program, and more than one order may want something of it: the program is one,
// bpf/inside.bpf.c, and is attached as long as any order wants anything.
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

// Inside is all that is wanted at the ports of terminals.
type Inside struct {
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
func New(within func(func() error) error, log *slog.Logger) *Inside {
	return &Inside{within: within, log: log, missing: portstate.Ports{}}
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
func (i *Inside) Number(ports []string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.numbered = slices.Clone(ports)
	i.tend()
}

// Fit tells who sends by these ports, and no others, how long IP packets may be: at least LeastBytes, and with 0 as long
// as they like.
func (i *Inside) Fit(ports []string, largestBytes int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.fitted, i.largest = slices.Clone(ports), max(largestBytes, LeastBytes)
	if largestBytes == 0 {
		i.fitted = nil
	}
	i.tend()
}

// Missing is why there is no program at ports where one is wanted.
func (i *Inside) Missing() map[string]error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	missing := map[string]error{}
	for port, err := range i.missing {
		if err != nil {
			missing[port] = err
		}
	}
	return missing
}

// Run sees to the ports until the context ends, and then lets everything pass as it is.
func (i *Inside) Run(ctx context.Context) {
	clock.Every(ctx, tendEvery, i.Tend)
	if err := i.Close(); err != nil {
		i.log.Error("the program at the ports of terminals did not end well", "because", err)
	}
}

// Tend looks for the ports, which may have gone and come back.
func (i *Inside) Tend() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.tend()
}

// Close takes the program from every port, and wants nothing more.
func (i *Inside) Close() error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.numbered, i.fitted = nil, nil
	return i.let()
}

// Under the mutex.
func (i *Inside) tend() {
	wanted := i.wanted()
	if len(wanted) == 0 {
		if err := i.let(); err != nil {
			i.log.Warn("the program at the ports of terminals did not end well", "because", err)
		}
		return
	}
	err := i.within(func() error {
		if err := i.begin(); err != nil {
			return err
		}
		for port := range i.missing {
			if _, still := wanted[port]; !still {
				delete(i.missing, port)
				if err := i.program.leave(port); err != nil {
					i.log.Warn("the program did not leave a port well", "port", port, "because", err)
				}
			}
		}
		for port, what := range wanted {
			what.LongestBytes = longest(port)
			i.found(port, i.program.stand(port, what))
		}
		return nil
	})
	if err == nil {
		return
	}
	for port := range wanted {
		i.found(port, err)
	}
}

func (i *Inside) wanted() map[string]port {
	wanted := map[string]port{}
	for _, name := range i.numbered {
		wanted[name] = port{Number: 1}
	}
	for _, name := range i.fitted {
		what := wanted[name]
		what.LargestBytes = uint32(i.largest)
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

func (i *Inside) begin() (err error) {
	if i.program != nil {
		return nil
	}
	if i.program, err = load(); err != nil {
		return err
	}
	if i.answers, err = newAnswers(i.program.objects.Told, i.log); err != nil {
		return errors.Join(err, i.let())
	}
	return nil
}

func (i *Inside) let() (err error) {
	if i.answers != nil {
		err = i.answers.close()
	}
	if i.program != nil {
		err = errors.Join(err, i.program.close())
	}
	i.program, i.answers = nil, nil
	clear(i.missing)
	return err
}

// found says once what has changed.
func (i *Inside) found(port string, err error) {
	i.missing.Found(port, err, i.log, portstate.Words{Lost: "packets of terminals pass as they are here", Back: "the port of terminals is there"})
}
