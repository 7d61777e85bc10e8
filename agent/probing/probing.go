// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"bicast/agent/probing/bandwidth"
	"bicast/api/agentv1"
	"bicast/internal/clock"
	"bicast/internal/plural"
)

const (
	maxClockStep   = time.Millisecond // a larger step of this host's clock makes timestamps incomparable
	maxAnswerDelay = time.Minute      // between the last packet and its answer
)

// Probe starts a probe. Probed delivers the result with the directive's number.
func (e *Executor) Probe(directive uint64, order *agentv1.Probe) (string, error) {
	plan, err := planOf(order)
	if err != nil {
		return "", err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.alive.Err() != nil {
		return "", errEnding
	}
	if e.probes != "" {
		return "", fmt.Errorf("path %s is being probed: one at a time, try again later", e.probes)
	}
	var prober *bandwidth.Prober
	err = e.outside(func() (err error) {
		from, to := ends(order.GetRoute(), order.GetPort())
		prober, err = bandwidth.DialFrom(from, to, order.GetRoute().GetDevice(), bandwidth.Key(order.GetKey()))
		return err
	})
	if err != nil {
		return "", err
	}
	e.probes = order.GetName()
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.measure(directive, prober, plan)
	}()
	return fmt.Sprintf("started: %s in about %v", plural.Of(packets(plan), "packet"), lasts(plan)), nil
}

// measure delivers the result after the executor is free, so that the receiver can order the next probe at once.
func (e *Executor) measure(directive uint64, prober *bandwidth.Prober, plan bandwidth.Plan) {
	defer prober.Close()
	before := e.now()
	result, err := prober.Measure(e.alive, plan)
	message := probedMessage(result, cmp.Or(err, result.Ended), clockStep(before, e.now()))
	message.Directive = directive
	e.mutex.Lock()
	e.probes = ""
	e.mutex.Unlock()
	select {
	case e.probed <- message:
	case <-e.alive.Done():
	}
}

// clockStep returns by how much this host's clock was set, or 0 if at most maxClockStep.
func clockStep(before, after clock.Instant) time.Duration {
	if by := after.Offset() - before.Offset(); by.Abs() > maxClockStep {
		return by
	}
	return 0
}

func probedMessage(result bandwidth.Result, failed error, set time.Duration) *agentv1.ProbeReport {
	if set != 0 && !result.Hardware { // hardware timestamps use the network card's clock
		return &agentv1.ProbeReport{Reason: fmt.Sprintf("this host's clock was set by %v during the probe", set.Round(time.Microsecond))}
	}
	var sender, receiver span
	for _, s := range result.Samples {
		sender.take(s.Sent, s.Returned)
		receiver.take(s.Received, s.Answered)
	}
	if over := max(sender.lasts(), receiver.lasts()); over > result.Took+maxAnswerDelay {
		return &agentv1.ProbeReport{Reason: fmt.Sprintf("a clock was set during the probe: its timestamps span %v, but the probe took %v",
			over.Round(time.Second), result.Took.Round(time.Second))}
	}
	message := &agentv1.ProbeReport{
		Reason: incompleteReason(result, failed), Transport: "udp", Hardware: result.Hardware && result.FarHardware,
		SenderOriginNs: sender.first, ReceiverOriginNs: receiver.first,
	}
	if result.Six {
		message.Transport = "udp6"
	}
	for _, s := range result.Samples {
		message.Trains = append(message.Trains, uint32(s.Train))
		message.Lengths = append(message.Lengths, uint32(s.Length))
		message.SentNs = append(message.SentNs, sender.since(s.Sent))
		message.ReceivedNs = append(message.ReceivedNs, receiver.since(s.Received))
		message.AnsweredNs = append(message.AnsweredNs, receiver.since(s.Answered))
		message.ReturnedNs = append(message.ReturnedNs, sender.since(s.Returned))
	}
	return message
}

// incompleteReason returns why the result has fewer packets than ordered, or "".
func incompleteReason(result bandwidth.Result, failed error) string {
	switch {
	case failed != nil:
		return failed.Error()
	case result.LeftOut > 0:
		return fmt.Sprintf("%s left out: the way of the requests spaced the packets, not the measured way back",
			plural.Of(result.LeftOut, "train"))
	default:
		return ""
	}
}

// span is the first and last timestamp of one clock. A timestamp of 0 is unknown.
type span struct{ first, last int64 }

func (s *span) take(times ...int64) {
	for _, at := range times {
		if at != 0 && (s.first == 0 || at < s.first) {
			s.first = at
		}
		s.last = max(s.last, at)
	}
}

// lasts must not overflow: the peer's timestamps can have any value.
func (s *span) lasts() time.Duration {
	return time.Duration(min(uint64(s.last)-uint64(s.first), math.MaxInt64))
}

// since returns 1 for the first timestamp, and 0 for an unknown one.
func (s *span) since(at int64) uint64 {
	if at == 0 {
		return 0
	}
	return uint64(at-s.first) + 1
}
