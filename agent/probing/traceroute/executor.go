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

// Executor runs the controller's Walk orders, one at a time.
type Executor struct {
	within func(func() error) error // runs a function in the network namespace of the packets

	alive   context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	walked  chan *agentv1.Walked

	mutex sync.Mutex
	busy  bool
}

// NewExecutor returns an idle executor.
func NewExecutor(within func(func() error) error) *Executor {
	h := &Executor{within: within, walked: make(chan *agentv1.Walked, 1)}
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

// Walked delivers the results of orders.
func (e *Executor) Walked() <-chan *agentv1.Walked { return e.walked }

// Order starts a measurement. Walked delivers the result with the directive's number.
func (e *Executor) Order(directive uint64, order *agentv1.Walk) (string, error) {
	to, err := read(order)
	if err != nil {
		return "", fmt.Errorf("walk: %w", err)
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
func (e *Executor) run(directive uint64, to []To) {
	message := &agentv1.Walked{Directive: directive}
	for n, way := range Walk(e.alive, e.within, to) {
		message.Ways = append(message.Ways, wayMessage(to[n], way))
	}
	e.mutex.Lock()
	e.busy = false
	e.mutex.Unlock()
	select {
	case e.walked <- message:
	case <-e.alive.Done():
	}
}

// read parses an order or returns what is wrong with it.
func read(order *agentv1.Walk) (all []To, err error) {
	if n := len(order.GetTo()); n == 0 || n > maxDestinations {
		return nil, fmt.Errorf("%s, expected 1 to %d", plural.Of(n, "destination"), maxDestinations)
	}
	seen := map[netip.Addr]bool{}
	for _, each := range order.GetTo() {
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
		all = append(all, To{Address: address, Port: uint16(each.GetPort()), Routers: each.GetRouters()})
	}
	return all, nil
}

func wayMessage(to To, way Way) *agentv1.Way {
	message := &agentv1.Way{
		Address: to.Address.String(), Reason: way.Reason, RttUs: micros(way.RTT), Sent: uint32(way.Sent), Lost: uint32(way.Lost),
	}
	for _, each := range way.Routers {
		router := &agentv1.Router{RttUs: micros(each.RTT)}
		if each.Address.IsValid() {
			router.Address = each.Address.String()
		}
		message.Routers = append(message.Routers, router)
	}
	return message
}

func micros(d time.Duration) uint32 { return uint32(d.Microseconds()) }
