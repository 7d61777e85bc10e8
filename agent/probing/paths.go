// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/agent/probing/stamp"
	"bicast/api/agentv1"
	"bicast/internal/plural"
	"bicast/internal/timestamping"
)

// Health replaces the set of measured paths. Unchanged paths keep their state.
func (e *Executor) Health(order *agentv1.HealthProbes) (string, error) {
	if err := checkHealth(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errEnding
	}
	e.paths = e.paths.next(order, e.log)
	e.paths.retry(e.outside)
	for _, p := range e.paths {
		if p.reason != nil {
			return "", fmt.Errorf("path %s: %w; the agent retries", p.order.GetName(), p.reason)
		}
	}
	return fmt.Sprintf("measuring %s", plural.Of(len(e.paths), "path")), nil
}

// paths holds the paths of a Health order.
type paths []*path

// next returns the paths of the new order and reuses unchanged ones.
func (ps paths) next(order *agentv1.HealthProbes, log *slog.Logger) paths {
	before := map[string]*path{}
	for _, p := range ps {
		before[p.order.GetName()] = p
	}
	var next paths
	for _, each := range order.GetPaths() {
		p := before[each.GetName()]
		if p != nil && proto.Equal(p.order, each) {
			delete(before, each.GetName())
		} else {
			p = &path{order: each, log: log}
		}
		next = append(next, p)
	}
	for _, p := range before {
		p.stop()
	}
	return next
}

func (ps paths) retry(outside func(func() error) error) {
	for _, p := range ps {
		p.retry(outside)
	}
}

func (ps paths) messages() []*agentv1.PathHealth {
	var messages []*agentv1.PathHealth
	for _, p := range ps {
		messages = append(messages, p.message())
	}
	return messages
}

// path sends packets along one path whenever the host can.
type path struct {
	order    *agentv1.HealthPath
	log      *slog.Logger
	sender   *stamp.Sender // nil before the first successful start
	sending  *task         // nil while stopped
	binding  binding       // of its socket
	answered uint64        // answers counted at the last retry
	reason   error
}

// binding is the device and local address of a socket. If they change, the path needs a new socket.
type binding struct {
	device int // index; 0: routes decide
	local  netip.Addr
}

// retry redials a path without new answers: this host's device or address may have changed.
func (p *path) retry(outside func(func() error) error) {
	if p.sending != nil {
		if answered := p.sender.Sending().Answered; answered > p.answered {
			p.answered, p.reason = answered, nil
			return
		}
	}
	before := p.reason
	p.reason = outside(p.redial)
	if p.reason != nil && (before == nil || before.Error() != p.reason.Error()) {
		p.log.Warn("cannot measure a path", "path", p.order.GetName(), "reason", p.reason)
	}
}

// redial opens a new socket if the current one has another binding. If that fails, the old sender continues and its
// packets are lost.
func (p *path) redial() error {
	target := targetOf(p.order)
	found, err := bindingOf(target)
	if err != nil || p.sending != nil && found == p.binding {
		return err
	}
	p.stop()
	next := func() (*stamp.Sender, error) { return stamp.Dial(target) }
	if p.sender != nil {
		next = p.sender.Again
	}
	sender, err := next()
	if err != nil {
		return err
	}
	sending := begin(sender.Run)
	p.sender, p.sending, p.binding = sender, &sending, found
	return nil
}

// stop ends sending.
func (p *path) stop() {
	if p.sending != nil {
		p.sending.end()
		p.sending = nil
	}
}

func targetOf(order *agentv1.HealthPath) stamp.Target {
	from, to := ends(order.GetRoute(), order.GetPort())
	return stamp.Target{
		To: to, From: from, Device: order.GetRoute().GetDevice(), ID: uint16(order.GetNumber()), Key: order.GetKey(), Stateful: true,
		Pause: time.Duration(order.GetPauseMs()) * time.Millisecond,
	}
}

// bindingOf returns the binding that a new socket to the target would have.
func bindingOf(target stamp.Target) (binding, error) {
	var found binding
	if target.Device != "" {
		device, err := net.InterfaceByName(target.Device)
		if err != nil {
			return found, fmt.Errorf("the network device %s for outgoing packets does not exist", target.Device)
		}
		found.device = device.Index
	}
	socket, err := timestamping.Dial(target.From, target.To, target.Device)
	if err != nil {
		return found, err
	}
	defer socket.Close()
	found.local = socket.Local().Addr()
	return found, nil
}

func (p *path) message() *agentv1.PathHealth {
	message := &agentv1.PathHealth{Name: p.order.GetName()}
	if p.reason != nil {
		message.Reason = p.reason.Error()
	}
	if p.sender == nil {
		return message
	}
	totals := p.sender.Totals()
	message.Sent, message.Lost, message.Late = totals.Sent, totals.Lost, totals.Late
	message.LostThere, message.LostBack = totals.LostThere, totals.LostBack
	for _, window := range p.sender.Windows() {
		message.Windows = append(message.Windows, windowMessage(window))
	}
	return message
}

func windowMessage(w stamp.Window) *agentv1.HealthWindow {
	message := &agentv1.HealthWindow{
		Seconds: uint32(w.Length / time.Second), Sent: uint32(w.Sent), Lost: uint32(w.Lost),
		LostThere: uint32(w.LostThere), LostBack: uint32(w.LostBack), Reordered: uint32(w.Reordered),
		RttLeastUs: micros(w.Least), RttMedianUs: micros(w.Median), RttP95Us: micros(w.NinetyFive), Reason: w.Why,
	}
	if o := w.OneWay; o != nil {
		message.ThereMedianUs, message.ThereP95Us = micros(o.There.Median), micros(o.There.NinetyFive)
		message.ThereJitterUs = micros(o.There.Jitter)
		message.BackMedianUs, message.BackP95Us = micros(o.Back.Median), micros(o.Back.NinetyFive)
		message.BackJitterUs = micros(o.Back.Jitter)
	}
	return message
}

// micros rounds up, because 0 means unknown.
func micros(d time.Duration) uint32 {
	return uint32(min(max(d+time.Microsecond-1, 0)/time.Microsecond, 1<<32-1))
}
