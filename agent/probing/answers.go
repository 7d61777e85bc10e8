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

// Answer replaces the set of answered sessions. Unchanged sessions keep their state.
func (e *Executor) Answer(order *agentv1.AnswerProbes) (string, error) {
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
		return "answering ended: the order has no sessions", nil
	}
	e.answers.order = order
	e.answers.retry(e.outside)
	if reason := e.answers.reason(); reason != "" {
		return "", fmt.Errorf("%s; the agent retries", reason)
	}
	return fmt.Sprintf("answering %s", plural.Of(len(order.GetSessions()), "session")), nil
}

// answers holds the ports of an Answer order.
type answers struct {
	log          *slog.Logger
	order        *agentv1.AnswerProbes // nil: no session is answered
	listeners    map[uint16]listener
	openErrors   map[uint16]error   // by port
	closedCounts *agentv1.Answering // counters of closed listeners
}

func newAnswers(log *slog.Logger) answers {
	return answers{log: log, listeners: map[uint16]listener{}, openErrors: map[uint16]error{}, closedCounts: &agentv1.Answering{}}
}

// portsOf returns what the order wants answered at each port.
func portsOf(order *agentv1.AnswerProbes) map[uint16]portSpec {
	all := map[uint16]portSpec{}
	for _, each := range order.GetSessions() {
		key, port := bandwidth.Key(each.GetKey()), uint16(each.GetHealthPort())
		if all[port].health == nil {
			all[port] = portSpec{health: map[uint16]bandwidth.Key{}}
		}
		all[port].health[uint16(each.GetNumber())] = key
		if each.GetProbePort() != 0 {
			all[uint16(each.GetProbePort())] = portSpec{probes: &key}
		}
	}
	return all
}

// retry closes ports that are not wanted any more and opens those that are not open yet.
func (a *answers) retry(outside func(func() error) error) {
	all := portsOf(a.order)
	for port, d := range a.listeners {
		if w, stays := all[port]; !stays || !d.fits(w) || d.over() {
			a.close(port)
		}
	}
	maps.DeleteFunc(a.openErrors, func(port uint16, _ error) bool { _, stays := all[port]; return !stays })
	for port, w := range all {
		if a.listeners[port] == nil {
			a.open(outside, port, w)
		}
		if d := a.listeners[port]; d != nil {
			d.serve(w)
		}
	}
}

func (a *answers) open(outside func(func() error) error, port uint16, w portSpec) {
	err := outside(func() error {
		d, err := open(port, w, a.log)
		if err == nil {
			a.listeners[port] = d
		}
		return err
	})
	switch before := a.openErrors[port]; {
	case err == nil:
		delete(a.openErrors, port)
	case before == nil || before.Error() != err.Error():
		a.log.Warn("cannot open a UDP port for answers", "port", port, "reason", err)
		a.openErrors[port] = err
	}
}

func (a *answers) close(port uint16) {
	a.listeners[port].end()
	a.listeners[port].count(a.closedCounts)
	delete(a.listeners, port)
}

// end closes all ports.
func (a *answers) end() {
	for port := range a.listeners {
		a.close(port)
	}
	*a = newAnswers(a.log)
}

// reason lists the ports that could not be opened, or returns "".
func (a *answers) reason() string {
	var reasons []string
	for _, port := range slices.Sorted(maps.Keys(a.openErrors)) {
		reasons = append(reasons, fmt.Sprintf("UDP port %d: %v", port, a.openErrors[port]))
	}
	return strings.Join(reasons, "; ")
}

// message returns the report, or nil if there is no order.
func (a *answers) message() *agentv1.Answering {
	if a.order == nil {
		return nil
	}
	message := proto.CloneOf(a.closedCounts)
	for _, d := range a.listeners {
		d.count(message)
	}
	message.Reason = a.reason()
	return message
}
