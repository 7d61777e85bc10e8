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
	mostSet   = time.Millisecond // of this host's clock; more makes times of before and after nothing to compare
	mostAfter = time.Minute      // that the last answers may come after the last packet
)

// Probe begins one. What came of it is told by its directive (Probed).
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
		return "", fmt.Errorf("%s is being measured: one path at a time", e.probes)
	}
	var prober *bandwidth.Prober
	err = e.outside(func() (err error) {
		from, to := ends(order.GetWay(), order.GetPort())
		prober, err = bandwidth.DialFrom(from, to, order.GetWay().GetDevice(), bandwidth.Key(order.GetKey()))
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
	return fmt.Sprintf("begun: %s in about %v", plural.Of(packets(plan), "packet"), lasts(plan)), nil
}

// measure tells what came once another probe may begin: who hears of this one may order that.
func (e *Executor) measure(directive uint64, prober *bandwidth.Prober, plan bandwidth.Plan) {
	defer prober.Close()
	before := e.now()
	result, err := prober.Measure(e.alive, plan)
	message := probedMessage(result, cmp.Or(err, result.Ended), setBetween(before, e.now()))
	message.Directive = directive
	e.mutex.Lock()
	e.probes = ""
	e.mutex.Unlock()
	select {
	case e.probed <- message:
	case <-e.alive.Done():
	}
}

// setBetween is by how much this host's clock was set; 0 where it was not, or so little that it is of no account.
func setBetween(before, after clock.Instant) time.Duration {
	if by := after.Offset() - before.Offset(); by.Abs() > mostSet {
		return by
	}
	return 0
}

func probedMessage(result bandwidth.Result, failed error, set time.Duration) *agentv1.Probed {
	if set != 0 && !result.Hardware { // a card has a clock of its own
		return &agentv1.Probed{Because: fmt.Sprintf("this host's clock was set by %v while it ran", set.Round(time.Microsecond))}
	}
	var sender, receiver span
	for _, s := range result.Samples {
		sender.take(s.Sent, s.Heard)
		receiver.take(s.Received, s.Answered)
	}
	if over := max(sender.lasts(), receiver.lasts()); over > result.Took+mostAfter {
		return &agentv1.Probed{Because: fmt.Sprintf("a clock was set: its times are of %v, and it ran for %v",
			over.Round(time.Second), result.Took.Round(time.Second))}
	}
	message := &agentv1.Probed{
		Because: lessBecause(result, failed), Transport: "udp", Hardware: result.Hardware && result.FarHardware,
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
		message.HeardNs = append(message.HeardNs, sender.since(s.Heard))
	}
	return message
}

// lessBecause is why there is less than was ordered; empty: there is all of it.
func lessBecause(result bandwidth.Result, failed error) string {
	switch {
	case failed != nil:
		return failed.Error()
	case result.LeftOut > 0:
		return fmt.Sprintf("%s left out: the way there, which their requests took, spaced them, and not the way here",
			plural.Of(result.LeftOut, "train"))
	default:
		return ""
	}
}

// span is of the times of a clock; 0 is none.
type span struct{ first, last int64 }

func (s *span) take(times ...int64) {
	for _, at := range times {
		if at != 0 && (s.first == 0 || at < s.first) {
			s.first = at
		}
		s.last = max(s.last, at)
	}
}

// lasts bears any times: the far end's are what it says.
func (s *span) lasts() time.Duration {
	return time.Duration(min(uint64(s.last)-uint64(s.first), math.MaxInt64))
}

// since is 1 at the first time, and 0 where there is none.
func (s *span) since(at int64) uint64 {
	if at == 0 {
		return 0
	}
	return uint64(at-s.first) + 1
}
