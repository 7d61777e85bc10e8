// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/plural"
)

const (
	maxDestinations = 64
	maxPort         = 1<<16 - 1
)

// Executor runs the controller's MeasureDistances orders, one at a time.
type Executor struct {
	within func(func() error) error // runs a function in the network namespace of the packets

	alive    context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	measured chan *agentv1.DistancesMeasured

	mutex sync.Mutex
	busy  bool
}

// NewExecutor returns an idle executor.
func NewExecutor(within func(func() error) error) *Executor {
	h := &Executor{within: within, measured: make(chan *agentv1.DistancesMeasured, 1)}
	h.alive, h.end = context.WithCancel(context.Background())
	return h
}

// Run waits until the context ends and then stops a running measurement.
func (e *Executor) Run(ctx context.Context) {
	<-ctx.Done()
	e.mutex.Lock()
	e.end()
	e.mutex.Unlock()
	e.running.Wait()
}

// DistancesMeasured delivers the results of orders.
func (e *Executor) DistancesMeasured() <-chan *agentv1.DistancesMeasured { return e.measured }

// Order starts a measurement. DistancesMeasured delivers the result with the directive's number.
func (e *Executor) Order(directive uint64, order *agentv1.MeasureDistances) (string, error) {
	to, err := read(order)
	if err != nil {
		return "", fmt.Errorf("measure_distances: %w", err)
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errors.New("this agent is ending and accepts no orders")
	}
	if e.busy {
		return "", errors.New("another traceroute is running: one at a time, try again later")
	}
	e.busy = true
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.run(directive, to)
	}()
	return fmt.Sprintf("started: to %s", plural.Of(len(to), "destination")), nil
}

// run delivers the result after the executor is free, so that the receiver can order the next one at once.
func (e *Executor) run(directive uint64, to []Target) {
	message := &agentv1.DistancesMeasured{Directive: directive}
	for n, distance := range Measure(e.alive, e.within, to) {
		message.Distances = append(message.Distances, distanceMessage(to[n], distance))
	}
	e.mutex.Lock()
	e.busy = false
	e.mutex.Unlock()
	select {
	case e.measured <- message:
	case <-e.alive.Done():
	}
}

// read parses an order or returns what is wrong with it.
func read(order *agentv1.MeasureDistances) (all []Target, err error) {
	if n := len(order.GetTargets()); n == 0 || n > maxDestinations {
		return nil, fmt.Errorf("%s, expected 1 to %d", plural.Of(n, "destination"), maxDestinations)
	}
	seen := map[netip.Addr]bool{}
	for _, each := range order.GetTargets() {
		address, err := netip.ParseAddr(each.GetAddress())
		address = address.Unmap()
		switch {
		case err != nil || address.IsUnspecified() || address.IsMulticast() || address.Zone() != "" ||
			address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return nil, fmt.Errorf("address %q, expected the address of one host", each.GetAddress())
		case seen[address]:
			return nil, fmt.Errorf("address %q is listed twice, expected each once", each.GetAddress())
		case each.GetPort() > maxPort:
			return nil, fmt.Errorf("port %d, expected at most %d", each.GetPort(), maxPort)
		}
		seen[address] = true
		all = append(all, Target{Address: address, Port: uint16(each.GetPort()), Routers: each.GetRouters()})
	}
	return all, nil
}

func distanceMessage(to Target, distance Distance) *agentv1.Distance {
	message := &agentv1.Distance{
		Address: to.Address.String(), Reason: distance.Reason, RttUs: micros(distance.RTT), Sent: uint32(distance.Sent), Lost: uint32(distance.Lost),
	}
	for _, each := range distance.Routers {
		router := &agentv1.Router{RttUs: micros(each.RTT)}
		if each.Address.IsValid() {
			router.Address = each.Address.String()
		}
		message.Routers = append(message.Routers, router)
	}
	return message
}

func micros(d time.Duration) uint32 { return uint32(d.Microseconds()) }
