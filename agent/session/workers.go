// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"sync"

	"bicast/api/agentv1"
)

// The queue of one executor has this length. Further orders are refused.
const maxQueued = 256

// workers executes orders: sequentially for one executor, in parallel for different executors. An order that takes
// seconds, such as one with nft, delays no other executor.
type workers struct {
	mutex  sync.Mutex
	queues map[string][]*task // queues by executor; a queue exists as long as its goroutine
	alive  sync.WaitGroup
}

// task is a queued order.
type task struct {
	directive *agentv1.Directive
	carryOut  func()
}

// give queues a task. An order that states the whole desired state replaces a queued one of its kind. give returns the
// order that will not be executed, and the reason; nil if there is none.
func (w *workers) give(one *task) (refused *agentv1.Directive, why string) {
	executor, whole := executorOf(one.directive)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	line, busy := w.queues[executor]
	if whole {
		kind := fmt.Sprintf("%T", one.directive.GetOrder())
		if at := slices.IndexFunc(line, func(each *task) bool { return fmt.Sprintf("%T", each.directive.GetOrder()) == kind }); at >= 0 {
			refused, why = line[at].directive, "a newer order replaced this one before it started"
			line = slices.Delete(line, at, at+1)
		}
	}
	if len(line) >= maxQueued {
		return one.directive, fmt.Sprintf("%d orders are queued, which is the limit: wait until they are executed", len(line))
	}
	if w.queues == nil {
		w.queues = map[string][]*task{}
	}
	w.queues[executor] = append(line, one)
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
		line := w.queues[executor]
		if len(line) == 0 {
			delete(w.queues, executor)
			w.mutex.Unlock()
			return
		}
		w.queues[executor] = line[1:]
		w.mutex.Unlock()
		line[0].carryOut()
	}
}

// executorOf returns the name of an order's executor. whole means that the order states the whole desired state, so only
// the newest one matters.
func executorOf(directive *agentv1.Directive) (executor string, whole bool) {
	switch directive.GetOrder().(type) {
	case *agentv1.Directive_Eliminate:
		return "elimination", true
	case *agentv1.Directive_Tunnels:
		return "tunnels", true
	case *agentv1.Directive_Intercept, *agentv1.Directive_Choices:
		return "interception", true
	case *agentv1.Directive_Caps:
		return "windows", true
	case *agentv1.Directive_Answer, *agentv1.Directive_Health:
		return "measuring", true
	case *agentv1.Directive_Probe:
		return "measuring", false
	case *agentv1.Directive_MeasureDistances:
		return "traceroute", false
	case *agentv1.Directive_Relay:
		return "relay", true
	case *agentv1.Directive_ReportEvery:
		return "reports", false
	default:
		return "steering", false
	}
}
