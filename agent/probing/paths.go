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

// Health takes the place of the order before; paths that are the same go on.
func (e *Executor) Health(order *agentv1.Health) (string, error) {
	if err := checkHealth(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errEnding
	}
	e.paths = e.paths.next(order, e.log)
	e.paths.tend(e.outside)
	for _, p := range e.paths {
		if p.because != nil {
			return "", fmt.Errorf("%s: %w; it is tried again", p.order.GetName(), p.because)
		}
	}
	return fmt.Sprintf("packets are sent along %s", plural.Of(len(e.paths), "path")), nil
}

// paths are those of an order.
type paths []*path

// next has what is the same in it as it is.
func (ps paths) next(order *agentv1.Health, log *slog.Logger) paths {
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
		p.rest()
	}
	return next
}

func (ps paths) tend(outside func(func() error) error) {
	for _, p := range ps {
		p.tend(outside)
	}
}

func (ps paths) messages() []*agentv1.PathHealth {
	var messages []*agentv1.PathHealth
	for _, p := range ps {
		messages = append(messages, p.message())
	}
	return messages
}

// path is one along which packets are sent, as long as they can be.
type path struct {
	order    *agentv1.HealthPath
	log      *slog.Logger
	sender   *stamp.Sender // nil: there never was one
	sending  *part         // nil: it does not
	binding  binding       // of its socket
	answered uint64        // when it was last seen to
	because  error
}

// binding is what a socket has from the host: where that is another, another socket is wanted.
type binding struct {
	device int // 0: as routes say
	local  netip.Addr
}

// tend leaves a path alone that answers. Of one that does not, it may be our end that has changed.
func (p *path) tend(outside func(func() error) error) {
	if p.sending != nil {
		if answered := p.sender.Sending().Answered; answered > p.answered {
			p.answered, p.because = answered, nil
			return
		}
	}
	before := p.because
	p.because = outside(p.see)
	if p.because != nil && (before == nil || before.Error() != p.because.Error()) {
		p.log.Warn("a path cannot be measured", "path", p.order.GetName(), "because", p.because)
	}
}

// see has packets leave as they would if they began now. Where they could not, what was begun goes on, and its packets are lost.
func (p *path) see() error {
	target := targetOf(p.order)
	found, err := look(target)
	if err != nil || p.sending != nil && found == p.binding {
		return err
	}
	p.rest()
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

// rest sends no more.
func (p *path) rest() {
	if p.sending != nil {
		p.sending.end()
		p.sending = nil
	}
}

func targetOf(order *agentv1.HealthPath) stamp.Target {
	from, to := ends(order.GetWay(), order.GetPort())
	return stamp.Target{
		To: to, From: from, Device: order.GetWay().GetDevice(), ID: uint16(order.GetNumber()), Key: order.GetKey(), Stateful: true,
		Pause: time.Duration(order.GetPauseMs()) * time.Millisecond,
	}
}

// look tells what a socket would have.
func look(target stamp.Target) (binding, error) {
	var found binding
	if target.Device != "" {
		device, err := net.InterfaceByName(target.Device)
		if err != nil {
			return found, fmt.Errorf("the network device %s, by which packets are to leave, is not there", target.Device)
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
	if p.because != nil {
		message.Because = p.because.Error()
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
		RttLeastUs: micros(w.Least), RttMedianUs: micros(w.Median), RttP95Us: micros(w.NinetyFive), Because: w.Why,
	}
	if o := w.OneWay; o != nil {
		message.ThereMedianUs, message.ThereP95Us = micros(o.There.Median), micros(o.There.NinetyFive)
		message.ThereJitterUs = micros(o.There.Jitter)
		message.BackMedianUs, message.BackP95Us = micros(o.Back.Median), micros(o.Back.NinetyFive)
		message.BackJitterUs = micros(o.Back.Jitter)
	}
	return message
}

// micros is rounded up: 0 is what is not known, or is not there.
func micros(d time.Duration) uint32 {
	return uint32(min(max(d+time.Microsecond-1, 0)/time.Microsecond, 1<<32-1))
}
