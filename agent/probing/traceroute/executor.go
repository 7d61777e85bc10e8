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
	mostTo   = 64
	mostPort = 1<<16 - 1
)

// Executor walks as a controller ordered, one order at a time.
type Executor struct {
	within func(func() error) error // runs where the packets leave

	alive   context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	walked  chan *agentv1.Walked

	mutex sync.Mutex
	walks bool
}

// NewExecutor has nothing to do yet.
func NewExecutor(within func(func() error) error) *Executor {
	h := &Executor{within: within, walked: make(chan *agentv1.Walked, 1)}
	h.alive, h.end = context.WithCancel(context.Background())
	return h
}

// Run lets walks be until the context ends, and then ends them.
func (e *Executor) Run(ctx context.Context) {
	<-ctx.Done()
	e.mutex.Lock()
	e.end()
	e.mutex.Unlock()
	e.running.Wait()
}

// Walked tells what came of orders.
func (e *Executor) Walked() <-chan *agentv1.Walked { return e.walked }

// Order begins a walk. What came of it is told by its directive (Walked).
func (e *Executor) Order(directive uint64, order *agentv1.Walk) (string, error) {
	to, err := read(order)
	if err != nil {
		return "", fmt.Errorf("walk: %w", err)
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errors.New("this agent is ending")
	}
	if e.walks {
		return "", errors.New("another walk is under way: one at a time")
	}
	e.walks = true
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.walk(directive, to)
	}()
	return fmt.Sprintf("begun: to %s", plural.Of(len(to), "destination")), nil
}

// walk tells what came once another may begin: who hears of this one may order that.
func (e *Executor) walk(directive uint64, to []To) {
	message := &agentv1.Walked{Directive: directive}
	for n, way := range Walk(e.alive, e.within, to) {
		message.Ways = append(message.Ways, wayMessage(to[n], way))
	}
	e.mutex.Lock()
	e.walks = false
	e.mutex.Unlock()
	select {
	case e.walked <- message:
	case <-e.alive.Done():
	}
}

// read says what is wrong with an order.
func read(order *agentv1.Walk) (all []To, err error) {
	if n := len(order.GetTo()); n == 0 || n > mostTo {
		return nil, fmt.Errorf("%s, expected 1 to %d", plural.Of(n, "destination"), mostTo)
	}
	seen := map[netip.Addr]bool{}
	for _, each := range order.GetTo() {
		address, err := netip.ParseAddr(each.GetAddress())
		address = address.Unmap()
		switch {
		case err != nil || address.IsUnspecified() || address.IsMulticast() || address.Zone() != "" ||
			address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			return nil, fmt.Errorf("address %q, expected that of one host", each.GetAddress())
		case seen[address]:
			return nil, fmt.Errorf("address %q is there twice, expected each once", each.GetAddress())
		case each.GetPort() > mostPort:
			return nil, fmt.Errorf("port %d, expected at most %d", each.GetPort(), mostPort)
		}
		seen[address] = true
		all = append(all, To{Address: address, Port: uint16(each.GetPort()), Routers: each.GetRouters()})
	}
	return all, nil
}

func wayMessage(to To, way Way) *agentv1.Way {
	message := &agentv1.Way{
		Address: to.Address.String(), Because: way.Because, RttUs: micros(way.RTT), Sent: uint32(way.Sent), Lost: uint32(way.Lost),
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
