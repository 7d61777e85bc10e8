// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"bicast/agent/probing/bandwidth"
	"bicast/api/agentv1"
	"bicast/internal/plural"
)

// Answer takes the place of the order before; sessions that are the same go on.
func (e *Executor) Answer(order *agentv1.Answer) (string, error) {
	if err := checkAnswer(order); err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errEnding
	}
	if len(order.GetSessions()) == 0 {
		e.answers.end()
		return "nobody is answered", nil
	}
	e.answers.order = order
	e.answers.tend(e.outside)
	if because := e.answers.because(); because != "" {
		return "", fmt.Errorf("%s; it is tried again", because)
	}
	return fmt.Sprintf("who measures is answered, by %s", plural.Of(len(order.GetSessions()), "session")), nil
}

// answers are the ports of an order.
type answers struct {
	log       *slog.Logger
	order     *agentv1.Answer // nil: nobody is answered
	listeners map[uint16]listener
	trouble   map[uint16]error   // of ports that could not be opened
	gone      *agentv1.Answering // what listeners counted that are closed
}

func newAnswers(log *slog.Logger) answers {
	return answers{log: log, listeners: map[uint16]listener{}, trouble: map[uint16]error{}, gone: &agentv1.Answering{}}
}

// wantedBy is what an order has at each port.
func wantedBy(order *agentv1.Answer) map[uint16]wanted {
	all := map[uint16]wanted{}
	for _, each := range order.GetSessions() {
		key, port := bandwidth.Key(each.GetKey()), uint16(each.GetHealthPort())
		if all[port].health == nil {
			all[port] = wanted{health: map[uint16]bandwidth.Key{}}
		}
		all[port].health[uint16(each.GetNumber())] = key
		if each.GetProbePort() != 0 {
			all[uint16(each.GetProbePort())] = wanted{probes: &key}
		}
	}
	return all
}

// tend closes what is not wanted, and opens what is; what could not be opened is tried again.
func (a *answers) tend(outside func(func() error) error) {
	all := wantedBy(a.order)
	for port, d := range a.listeners {
		if w, stays := all[port]; !stays || !d.fits(w) || d.over() {
			a.close(port)
		}
	}
	maps.DeleteFunc(a.trouble, func(port uint16, _ error) bool { _, stays := all[port]; return !stays })
	for port, w := range all {
		if a.listeners[port] == nil {
			a.open(outside, port, w)
		}
		if d := a.listeners[port]; d != nil {
			d.serve(w)
		}
	}
}

func (a *answers) open(outside func(func() error) error, port uint16, w wanted) {
	err := outside(func() error {
		d, err := open(port, w, a.log)
		if err == nil {
			a.listeners[port] = d
		}
		return err
	})
	switch before := a.trouble[port]; {
	case err == nil:
		delete(a.trouble, port)
	case before == nil || before.Error() != err.Error():
		a.log.Warn("nobody is answered at a port", "port", port, "because", err)
		a.trouble[port] = err
	}
}

func (a *answers) close(port uint16) {
	a.listeners[port].end()
	a.listeners[port].count(a.gone)
	delete(a.listeners, port)
}

// end answers nobody any more.
func (a *answers) end() {
	for port := range a.listeners {
		a.close(port)
	}
	*a = newAnswers(a.log)
}

// because is empty where all that was ordered is so.
func (a *answers) because() string {
	var said []string
	for _, port := range slices.Sorted(maps.Keys(a.trouble)) {
		said = append(said, fmt.Sprintf("UDP port %d: %v", port, a.trouble[port]))
	}
	return strings.Join(said, "; ")
}

// message is nil where nobody is to be answered.
func (a *answers) message() *agentv1.Answering {
	if a.order == nil {
		return nil
	}
	message := proto.CloneOf(a.gone)
	for _, d := range a.listeners {
		d.count(message)
	}
	message.Because = a.because()
	return message
}
