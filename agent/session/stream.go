// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
)

// directiveQueue is the number of directives that are read ahead of the executors.
const directiveQueue = 16

// farewellTimeout limits the wait for the controller's end: after the agent has stopped, or after it cannot send any more.
const farewellTimeout = time.Second

// ackTimeout limits how long a report stays unconfirmed. The kernel of a controller that hangs still acknowledges data,
// so TCP does not notice.
const ackTimeout = 15 * time.Second

// stream is one stream, from hello to its end. It has three goroutines. One reads. One passes orders to their executors
// and answers them. One does all writes and decides their order. A controller that does not read delays only its own
// directives.
type stream struct {
	session  *Session
	agent    context.Context // outlives the stream, so that a started order completes
	ctx      context.Context
	end      context.CancelCauseFunc
	wire     Wire // outlives the agent by farewellTimeout
	welcomed bool

	taken      chan uint64
	directives chan *agentv1.Directive
	results    chan *agentv1.Result    // of directives
	answers    chan *agentv1.FromAgent // to directives
	intervals  chan time.Duration

	pace     pace
	sequence uint64
	inFlight bool      // a report that the controller has not confirmed yet
	overdue  time.Time // the deadline of its confirmation
}

func newStream(ctx context.Context, session *Session) *stream {
	s := &stream{
		session: session, agent: ctx,
		taken: make(chan uint64), directives: make(chan *agentv1.Directive, directiveQueue),
		results: make(chan *agentv1.Result), answers: make(chan *agentv1.FromAgent), intervals: make(chan time.Duration),
	}
	s.ctx, s.end = context.WithCancelCause(ctx)
	return s
}

// run returns when the stream has ended. A started order completes nevertheless.
func (s *stream) run() error {
	s.session.unconfirmed.startStream()
	wire, err := s.session.Dial(s.ctx)
	if err == nil {
		defer wire.Close()
		s.wire = wire
		withdraw := context.AfterFunc(s.ctx, func() { wire.Close() })
		err = s.handshake()
		withdraw()
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	defer context.AfterFunc(s.ctx, s.leave)()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		s.readLoop()
	}()
	obeying := make(chan struct{})
	go func() {
		defer close(obeying)
		s.execute()
	}()
	err = s.writeLoop()
	s.end(err)
	stopping := &agentv1.FromAgent{Payload: &agentv1.FromAgent_Stopping{Stopping: &agentv1.Stopping{}}}
	if s.agent.Err() != nil && wire.Send(stopping) == nil {
		<-heard // until the controller has ended the stream too, or farewellTimeout is over
	}
	<-obeying
	return err
}

// leave ends the wire with the stream. For a stopped agent it waits, so that the controller learns of the end.
func (s *stream) leave() {
	if s.agent.Err() != nil {
		time.AfterFunc(farewellTimeout, func() { s.wire.Close() })
	} else {
		s.wire.Close()
	}
}

func (s *stream) handshake() error {
	hello := &agentv1.FromAgent{Payload: &agentv1.FromAgent_Hello{Hello: s.session.Host.Hello()}}
	hurry := time.AfterFunc(welcomeTimeout, func() {
		s.end(fmt.Errorf("%w for %v", errNoWelcome, welcomeTimeout))
	})
	defer hurry.Stop()
	if err := s.wire.Send(hello); errors.Is(err, proto.Error) {
		return err
	}
	word, err := s.receive() // after a failed send, too: the controller may have sent its reason before
	if err != nil {
		return err
	}
	welcome := word.GetWelcome()
	if welcome == nil {
		return fmt.Errorf("the controller's first message was %T, expected a welcome", word.GetPayload())
	}
	if welcome.GetProtocol() < 1 || welcome.GetProtocol() > Protocol {
		return fmt.Errorf("the controller speaks protocol %d, and this agent speaks 1 to %d: install the agent of "+
			"the controller's version", welcome.GetProtocol(), Protocol)
	}
	s.welcomed = true
	s.pace = newPace(asked(welcome.GetReportIntervalMs()), time.Now())
	s.session.Log.Info("connected to the controller", "report_every", s.pace.every)
	return nil
}

// receive returns the controller's next message, or its end as an error.
func (s *stream) receive() (*agentv1.FromController, error) {
	word, err := s.wire.Recv()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errEnded
	}
	if end := word.GetEnd(); end != nil {
		return nil, ended{end.GetCause(), end.GetReason()}
	}
	return word, err
}

func (s *stream) readLoop() {
	for {
		word, err := s.receive()
		if err != nil {
			s.end(err)
			return
		}
		switch word := word.GetPayload().(type) {
		case *agentv1.FromController_Ack:
			sendTo(s.ctx, s.taken, word.Ack.GetSequence())
		case *agentv1.FromController_Directive:
			sendTo(s.ctx, s.directives, word.Directive)
		case *agentv1.FromController_Renewed:
			if err := s.session.Renew(word.Renewed.GetCertificate()); err != nil { // the controller sends another one later
				s.session.Log.Error("cannot renew the certificate", "reason", err)
			}
		default: // a second welcome, or a message of a later protocol, which needs no answer
			s.session.Log.Debug("ignored a message of unknown type", "word", fmt.Sprintf("%T", word))
		}
	}
}

// execute passes orders to their executors and sends their results, and for Probe and MeasureDistances their outcomes. An outcome
// always follows its result. An outcome of an earlier stream's order is dropped: its number may be another order's here.
func (s *stream) execute() {
	begun := map[uint64]*pendingProbe{}
	for {
		select {
		case <-s.ctx.Done():
			return
		case directive := <-s.directives:
			if directive.GetProbe() != nil || directive.GetMeasureDistances() != nil {
				begun[directive.GetId()] = &pendingProbe{}
			}
			if refused, why := s.give(directive); refused != nil {
				s.answer(begun, &agentv1.Result{Directive: refused.GetId(), Answer: why})
			}
		case result := <-s.results:
			s.answer(begun, result)
		case probed := <-s.session.Host.Probed():
			s.sendOutcome(begun, probed.GetDirective(), &agentv1.FromAgent{Payload: &agentv1.FromAgent_ProbeReport{ProbeReport: probed}})
		case measured := <-s.session.Host.DistancesMeasured():
			s.sendOutcome(begun, measured.GetDirective(), &agentv1.FromAgent{Payload: &agentv1.FromAgent_DistancesMeasured{DistancesMeasured: measured}})
		}
	}
}

// pendingProbe is a probe or a distance measurement without a sent outcome.
type pendingProbe struct {
	answered bool               // its result was sent
	came     *agentv1.FromAgent // an outcome that came before the result
}

func (s *stream) give(directive *agentv1.Directive) (refused *agentv1.Directive, why string) {
	return s.session.workers.give(&task{directive, func() {
		if s.ctx.Err() == nil { // otherwise the next stream's orders apply
			sendTo(s.ctx, s.results, s.carryOut(directive))
		}
	}})
}

// answer sends an order's result, and then its outcome if that is known.
func (s *stream) answer(begun map[uint64]*pendingProbe, result *agentv1.Result) {
	sendTo(s.ctx, s.answers, &agentv1.FromAgent{Payload: &agentv1.FromAgent_Result{Result: result}})
	one := begun[result.GetDirective()]
	switch {
	case one == nil:
	case !result.GetDone():
		delete(begun, result.GetDirective())
	default:
		one.answered = true
		if one.came != nil {
			s.sendOutcome(begun, result.GetDirective(), one.came)
		}
	}
}

// sendOutcome sends the outcome of a probe or a distance measurement once its result was sent.
func (s *stream) sendOutcome(begun map[uint64]*pendingProbe, directive uint64, word *agentv1.FromAgent) {
	switch one := begun[directive]; {
	case one == nil:
	case !one.answered:
		one.came = word
	default:
		delete(begun, directive)
		sendTo(s.ctx, s.answers, word)
	}
}

func (s *stream) carryOut(directive *agentv1.Directive) *agentv1.Result {
	start := time.Now()
	var result *agentv1.Result
	if order, ok := directive.GetOrder().(*agentv1.Directive_ReportEvery); ok {
		result = s.reportEvery(order.ReportEvery)
	} else {
		ctx, cancel := context.WithTimeout(s.agent, orderTimeout)
		defer cancel()
		result = s.session.Host.Obey(ctx, directive)
	}
	result.Directive = directive.GetId()
	result.TookUs = uint32(min(time.Since(start).Microseconds(), 1<<32-1))
	return result
}

func (s *stream) reportEvery(order *agentv1.ReportEvery) *agentv1.Result {
	every := time.Duration(order.GetIntervalMs()) * time.Millisecond
	if every < shortestInterval || every > longestInterval {
		return &agentv1.Result{Answer: fmt.Sprintf("report_every of %v, expected %v to %v", every, shortestInterval, longestInterval)}
	}
	sendTo(s.ctx, s.intervals, every)
	return &agentv1.Result{Done: true, Answer: fmt.Sprintf("reports are sent every %v", every)}
}

// writeLoop does all writes after the hello.
func (s *stream) writeLoop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := s.tellFired(); err != nil {
			return s.reason(err)
		}
		due := s.pace.due
		if s.inFlight {
			due = s.overdue
		}
		timer.Reset(time.Until(due))
		var err error
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-timer.C:
			err = s.report()
		case sequence := <-s.taken:
			s.acknowledge(sequence)
		case every := <-s.intervals:
			s.pace.change(every, time.Now())
		case answer := <-s.answers:
			err = s.wire.Send(answer)
		case fired := <-s.fired():
			s.session.unconfirmed.fired = append(s.session.unconfirmed.fired, fired)
		}
		if err != nil {
			return s.reason(err)
		}
	}
}

func (s *stream) report() error {
	if s.inFlight {
		return fmt.Errorf("the controller has not acknowledged report %d within %v, although the connection is open", s.sequence, ackTimeout)
	}
	report := s.session.report()
	s.pace.sent(time.Now())
	if report == nil {
		return nil
	}
	s.sequence++
	report.Sequence = s.sequence
	s.inFlight, s.overdue = true, time.Now().Add(ackTimeout)
	s.session.unconfirmed.reportSent()
	return s.wire.Send(&agentv1.FromAgent{Payload: &agentv1.FromAgent_Report{Report: report}})
}

func (s *stream) acknowledge(sequence uint64) {
	if s.inFlight && sequence == s.sequence {
		s.inFlight = false
		s.session.unconfirmed.reportConfirmed()
	}
}

// fired returns the channel of fired failovers, or nil while too many messages are unconfirmed.
func (s *stream) fired() <-chan *agentv1.FailoverFired {
	if s.session.unconfirmed.full() {
		return nil
	}
	return s.session.Host.Fired()
}

// reason returns the reader's error if it comes soon: the controller may have sent an end before the connection failed.
func (s *stream) reason(err error) error {
	defer time.AfterFunc(farewellTimeout, func() { s.end(err) }).Stop()
	for {
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-s.taken:
		case <-s.intervals:
		case <-s.answers:
		}
	}
}

var errEnded = errors.New("the controller closed the connection without a reason")

// sendTo gives up when the stream ends.
func sendTo[T any](ctx context.Context, to chan<- T, word T) {
	select {
	case to <- word:
	case <-ctx.Done():
	}
}
