// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"sync"

	"bicast/api/agentv1"
)

// So many orders wait for one executor. The next one is refused.
const mostWaiting = 256

// workers carry orders out: those of one executor one after the other, those of different executors side by side. So an order that
// takes seconds, as with nft, holds up no order to another executor.
type workers struct {
	mutex sync.Mutex
	lines map[string][]*task // that wait, by executor; a line is there as long as its goroutine is
	alive sync.WaitGroup
}

// task is an order that waits for its executor.
type task struct {
	directive *agentv1.Directive
	carryOut  func()
}

// give has a task carried out. An order that says all that is to be takes the place of one of its kind that still waits. What is
// not carried out is returned, and why; nil: everything is.
func (w *workers) give(one *task) (refused *agentv1.Directive, why string) {
	executor, whole := executorOf(one.directive)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	line, busy := w.lines[executor]
	if whole {
		kind := fmt.Sprintf("%T", one.directive.GetOrder())
		if at := slices.IndexFunc(line, func(each *task) bool { return fmt.Sprintf("%T", each.directive.GetOrder()) == kind }); at >= 0 {
			refused, why = line[at].directive, "a newer order came before this one was begun"
			line = slices.Delete(line, at, at+1)
		}
	}
	if len(line) >= mostWaiting {
		return one.directive, fmt.Sprintf("%d orders wait already, expected fewer: give them time", len(line))
	}
	if w.lines == nil {
		w.lines = map[string][]*task{}
	}
	w.lines[executor] = append(line, one)
	if !busy {
		w.alive.Add(1)
		go w.work(executor)
	}
	return refused, why
}

func (w *workers) work(executor string) {
	defer w.alive.Done()
	for {
		w.mutex.Lock()
		line := w.lines[executor]
		if len(line) == 0 {
			delete(w.lines, executor)
			w.mutex.Unlock()
			return
		}
		w.lines[executor] = line[1:]
		w.mutex.Unlock()
		line[0].carryOut()
	}
}

// executorOf names who carries an order out, and tells whether the order says all that is to be, so that the newest one alone
// counts.
func executorOf(directive *agentv1.Directive) (executor string, whole bool) {
	switch directive.GetOrder().(type) {
	case *agentv1.Directive_Eliminate:
		return "elimination", true
	case *agentv1.Directive_Tunnels:
		return "tunnels", true
	case *agentv1.Directive_Take, *agentv1.Directive_Choices:
		return "interception", true
	case *agentv1.Directive_Caps:
		return "windows", true
	case *agentv1.Directive_Answer, *agentv1.Directive_Health:
		return "measuring", true
	case *agentv1.Directive_Probe:
		return "measuring", false
	case *agentv1.Directive_Walk:
		return "walking", false
	case *agentv1.Directive_Relay:
		return "relay", true
	case *agentv1.Directive_ReportEvery:
		return "reports", false
	default:
		return "steering", false
	}
}
