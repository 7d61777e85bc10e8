// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/agent/internal/controllertest"
	"bicast/agent/trust"
	"bicast/api/agentv1"
)

func TestASessionStartsWithHelloAndNumbersReports(t *testing.T) {
	a := begin(t)
	visit, hello := a.brain.Welcomed(100)
	if hello.GetProtocol() != 1 {
		t.Fatalf("hello says protocol %d, expected 1", hello.GetProtocol())
	}
	for expected := uint64(1); expected <= 3; expected++ {
		report := visit.Report()
		if report.GetSequence() != expected {
			t.Fatalf("report %d, expected %d", report.GetSequence(), expected)
		}
		visit.Take(report)
	}
}

func TestASlowControllerGetsNoBacklog(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(100)
	first := visit.Report()
	if !visit.Silent(600 * time.Millisecond) {
		t.Fatal("a second report came before the first was taken")
	}
	a.now.Store(42)
	visit.Take(first)
	second := visit.Report()
	if second.GetMonotonicUs() != 42 || second.GetSequence() != 2 {
		t.Fatalf("the next report is number %d and says %d, expected 2 and what is now, 42", second.GetSequence(), second.GetMonotonicUs())
	}
	if reads := a.reads.Load(); reads != 2 {
		t.Fatalf("the kernel was read %d times for 2 reports", reads)
	}
}

func TestOnlyTheLastReportsConfirmationCounts(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(100)
	first := visit.Report()
	visit.Take(&agentv1.Report{Sequence: first.GetSequence() + 7})
	if !visit.Silent(400 * time.Millisecond) {
		t.Fatal("a report came although the one before was not taken")
	}
}

// Like nft when it takes seconds.
func TestASlowExecutorDelaysNoReportAndNoOtherOrder(t *testing.T) {
	host := &fakeHost{slow: make(chan struct{}), began: make(chan struct{})}
	a := beginAs(t, host)
	visit, _ := a.brain.Welcomed(100)
	take := func(id uint64) *agentv1.Directive {
		return &agentv1.Directive{Id: id, Order: &agentv1.Directive_Intercept{Intercept: &agentv1.Intercept{}}}
	}
	results := func(most int) (all []uint64, done int) { // while reports go on
		for len(all) < most {
			switch word := visit.Message(); {
			case word.GetReport() != nil:
				visit.Take(word.GetReport())
			case word.GetResult() != nil:
				all = append(all, word.GetResult().GetDirective())
				if word.GetResult().GetDone() {
					done++
				}
			}
		}
		return all, done
	}
	visit.Order(take(1))
	<-host.began
	visit.Order(take(2))
	visit.Order(take(3)) // each states the whole desired state, so the second is obsolete
	visit.Order(prefer(4))
	if all, done := results(2); !slices.Equal(all, []uint64{2, 4}) || done != 1 {
		t.Fatalf("%v are answered, %d done, while the first is carried out; expected 2 to be refused, and 4 to be done", all, done)
	}
	for range 3 {
		visit.Take(visit.Report())
	}
	close(host.slow)
	<-host.began
	if all, done := results(2); !slices.Equal(all, []uint64{1, 3}) || done != 2 {
		t.Fatalf("%v are answered, %d done, expected the first and the newest", all, done)
	}
}

func TestEachDirectiveGetsOneResultInOrder(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	const many = 200
	go func() {
		for id := uint64(1); id <= many; id++ {
			if id%2 == 0 {
				visit.Order(prefer(id))
			} else {
				visit.Order(&agentv1.Directive{Id: id}) // of a later protocol
			}
		}
	}()
	for id := uint64(1); id <= many; id++ {
		result := visit.Result()
		if result.GetDirective() != id || result.GetDone() != (id%2 == 0) {
			t.Fatalf("%v, expected the result of %d", result, id)
		}
	}
	if !visit.Silent(50 * time.Millisecond) {
		t.Fatal("there is one result too many")
	}
}

func TestReportsContinueDuringAnOrder(t *testing.T) {
	host := slowHost()
	a := beginAs(t, host)
	visit, _ := a.brain.Welcomed(100)
	visit.Order(prefer(1))
	for range 3 {
		visit.Take(visit.Report())
	}
	close(host.hold)
	if result := visit.Result(); !result.GetDone() || result.GetTookUs() < 100_000 {
		t.Fatalf("%v, expected it done after 100 ms at least", result)
	}
}

func TestAStartedOrderCompletesAfterTheStreamEnds(t *testing.T) {
	host := slowHost()
	a := beginAs(t, host)
	visit, _ := a.brain.Welcomed(60000)
	visit.Order(prefer(1))
	<-host.began
	visit.End(agentv1.End_PASSING, "going away")
	visit.Ended()
	visit, _ = a.brain.Welcomed(100)
	visit.Take(visit.Report()) // it does not delay the next stream
	visit.Order(prefer(2))
	visit.Take(visit.Report())
	select {
	case <-host.began:
		t.Fatal("its executor began another order before it had ended that one")
	default:
	}
	close(host.hold)
	if err := <-host.ended; err != nil {
		t.Fatalf("the order was broken off: %v", err)
	}
	<-host.began
	if err := <-host.ended; err != nil {
		t.Fatal(err)
	}
	if result := visit.Result(); result.GetDirective() != 2 {
		t.Fatalf("%v, expected the result of this stream's order alone", result)
	}
}

func TestTheReportIntervalIsBounded(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	visit.Take(visit.Report())
	for id, ms := range []uint32{0, 99, 60001} {
		visit.Order(reportEvery(uint64(id), ms))
		if result := visit.Result(); result.GetDone() || !strings.Contains(result.GetAnswer(), "100ms") {
			t.Fatalf("an interval of %d ms: %v, expected a refusal with the bounds", ms, result)
		}
	}
	visit.Order(reportEvery(9, 100))
	if result := visit.Result(); !result.GetDone() {
		t.Fatalf("%v, expected it done", result)
	}
	visit.Report() // within the patience, not within the minute of the welcome
}

func TestOutcomeFollowsItsResultOnceOnTheSameStream(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	visit.Take(visit.Report())
	for id := uint64(1); id <= 50; id++ {
		visit.Order(probe(id))
		if result := visit.Message().GetResult(); result.GetDirective() != id || !result.GetDone() {
			t.Fatalf("%v, expected the result of %d", result, id)
		}
		if probed := visit.Message().GetProbeReport(); probed.GetDirective() != id {
			t.Fatalf("the agent sent %v, expected the outcome of directive %d", probed, id)
		}
		visit.Order(&agentv1.Directive{Id: 100 + id, Order: &agentv1.Directive_MeasureDistances{MeasureDistances: &agentv1.MeasureDistances{}}})
		if result := visit.Message().GetResult(); result.GetDirective() != 100+id || !result.GetDone() {
			t.Fatalf("%v, expected the result of %d", result, 100+id)
		}
		if measured := visit.Message().GetDistancesMeasured(); measured.GetDirective() != 100+id {
			t.Fatalf("the agent sent %v, expected the outcome of directive %d", measured, 100+id)
		}
	}
	if !visit.Silent(50 * time.Millisecond) {
		t.Fatal("there is one word too many")
	}
}

func TestFiredWaitsForTheNextController(t *testing.T) {
	a := begin(t)
	a.brain.Next().End(agentv1.End_PASSING, "not yet")
	a.fired <- &agentv1.FailoverFired{Name: "wifi"}
	visit, _ := a.brain.Welcomed(60000)
	for {
		if fired := visit.Message().GetFired(); fired != nil {
			if fired.GetName() != "wifi" {
				t.Fatalf("%v, expected the reflex", fired)
			}
			return
		}
	}
}

func TestTheAgentReconnectsAfterAnyMessage(t *testing.T) {
	for name, bad := range map[string]func(visit *controllertest.Visit){
		"nothing":                  func(visit *controllertest.Visit) { visit.Break() },
		"an error":                 func(visit *controllertest.Visit) { visit.End(agentv1.End_PASSING, "broken") },
		"an end without a reason":  func(visit *controllertest.Visit) { visit.End(agentv1.End_PASSING, "") },
		"an overlong length first": func(visit *controllertest.Visit) { visit.SayBare(bytes.Repeat([]byte{0xff}, 11)) },
		"half a message first": func(visit *controllertest.Visit) {
			visit.SayBare([]byte{100, 10})
			visit.Break()
		},
		"a directive first":      func(visit *controllertest.Visit) { visit.Order(prefer(1)) },
		"an empty word first":    func(visit *controllertest.Visit) { visit.Say(&agentv1.FromController{}) },
		"garbage first":          func(visit *controllertest.Visit) { visit.SayRaw([]byte{0xff, 0xff, 0xff, 0xff}) },
		"a huge word first":      func(visit *controllertest.Visit) { visit.SayUnwelcome(huge()) },
		"a protocol of the past": func(visit *controllertest.Visit) { welcome(visit, 0) },
		"a protocol to come":     func(visit *controllertest.Visit) { welcome(visit, 99) },
		"garbage": func(visit *controllertest.Visit) {
			welcome(visit, 1)
			visit.SayRaw([]byte("\x0a\xff\xff\xff\xff\x0f garbage"))
		},
		"a huge word": func(visit *controllertest.Visit) {
			welcome(visit, 1)
			visit.SayUnwelcome(huge())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin(t)
			bad(a.brain.Next())
			a.brain.Welcomed(1000)
		})
	}
}

func TestUnknownMessagesAreIgnored(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(100)
	visit.SayRaw(nil)
	visit.SayRaw([]byte("\xfa\x01\x00")) // field 31, of a later protocol
	welcome(visit, 7)
	visit.Say(&agentv1.FromController{Payload: &agentv1.FromController_Ack{}})
	visit.Take(visit.Report())
	if next := visit.Report(); next.GetSequence() != 2 {
		t.Fatalf("report %d, expected the session to go on with 2", next.GetSequence())
	}
}

func welcome(visit *controllertest.Visit, protocol uint32) {
	visit.Say(&agentv1.FromController{Payload: &agentv1.FromController_Welcome{Welcome: &agentv1.Welcome{Protocol: protocol}}})
}

func TestTheAgentFindsARestartedController(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(1000)
	visit.Take(visit.Report())
	a.brain.Stop()
	a.brain.Start()
	visit, _ = a.brain.Welcomed(1000)
	if report := visit.Report(); report.GetSequence() != 1 {
		t.Fatalf("a new session begins with report %d, expected 1", report.GetSequence())
	}
}

func TestALongAbsenceIsLoggedOnce(t *testing.T) {
	a := begin(t)
	a.brain.Welcomed(1000)
	a.brain.Stop()
	a.said.await(t, "WARN", "connection refused")
	for range 3 {
		for _, line := range a.said.await(t, "connection refused") {
			if !strings.Contains(line, "level=DEBUG") {
				t.Fatalf("it is logged again above level DEBUG: %s", line)
			}
		}
	}
}

func TestTheReasonOfARefusalIsLogged(t *testing.T) {
	a := begin(t)
	visit := a.brain.Next()
	visit.End(agentv1.End_CREDENTIAL, "phone was revoked")
	a.said.await(t, "WARN", "phone was revoked", "CREDENTIAL")
	if a.brain.Visited(time.Second) {
		t.Fatal("an agent that was refused came back within a second")
	}
}

func TestOnlyARefusalDelaysTheNextAttempt(t *testing.T) {
	a := begin(t)
	for range 2 {
		a.brain.Next().End(agentv1.End_PASSING, "starting")
	}
	a.brain.Next().End(agentv1.End_REFUSED, "phone has no place in the site")
	a.said.await(t, "WARN", "phone has no place in the site", "REFUSED")
	if a.brain.Visited(3 * time.Second) {
		t.Fatal("an agent that was refused came back within 3 s")
	}
}

func TestAStoppedAgentSaysSo(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	visit.Report()
	a.end()
	visit.Stopped()
	visit.Ended()
}

func TestRevokedAgentLogsOnceAndUsesANewCertificateAtOnce(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	visit.End(agentv1.End_CREDENTIAL, "the certificate of phone was revoked")
	a.said.await(t, "WARN", "the certificate of phone was revoked", "`bicast enroll phone`", "bicast-agent join")
	if err := a.brain.Authority.Identity("phone", a.brain.Sessions).Save(a.directory); err != nil {
		t.Fatal(err)
	}
	a.brain.Next().End(agentv1.End_CREDENTIAL, "the certificate of phone was revoked: and other words")
	for _, line := range a.said.await(t, "and other words") {
		if !strings.Contains(line, "level=DEBUG") {
			t.Fatalf("it is logged again above level DEBUG: %s", line)
		}
	}
	if err := a.brain.Authority.Identity("phone", a.brain.Sessions).Save(a.directory); err != nil {
		t.Fatal(err)
	}
	a.brain.Welcomed(60000)
}

func TestJoiningAgainReconnectsAtOnceWithTheNewIdentity(t *testing.T) {
	a := begin(t)
	a.brain.Welcomed(60000)
	if a.brain.Visited(2 * time.Second) {
		t.Fatal("the stream was reopened without a change")
	}
	if err := a.brain.Authority.Identity("phone", a.brain.Sessions).Save(a.directory); err != nil {
		t.Fatal(err)
	}
	a.said.await(t, "WARN", "this host has a new certificate")
	a.brain.Welcomed(60000)
}

func TestReportIsDueAtOnceAfterAFired(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	visit.Take(visit.Report())
	a.fired <- &agentv1.FailoverFired{Name: "wifi"}
	if fired := visit.Message().GetFired(); fired.GetName() != "wifi" {
		t.Fatalf("%v, expected the reflex", fired)
	}
	visit.Report() // within the patience, not within the minute of the welcome
	visit.End(agentv1.End_PASSING, "gone before it took the report")
	visit, _ = a.brain.Welcomed(60000)
	if fired := visit.Message().GetFired(); fired.GetName() != "wifi" {
		t.Fatalf("%v, expected the reflex again, before any report", fired)
	}
	visit.Take(visit.Report())
	visit.End(agentv1.End_PASSING, "gone")
	visit, _ = a.brain.Welcomed(60000)
	if report := visit.Message().GetReport(); report == nil {
		t.Fatal("the agent reports the failover a third time after the acknowledgement of a later report")
	}
}

func TestARenewedCertificateIsKeptAndUsedAtOnce(t *testing.T) {
	a := begin(t)
	visit, _ := a.brain.Welcomed(60000)
	identity, err := trust.Load(a.directory)
	if err != nil {
		t.Fatal(err)
	}
	renew := func(certificate []byte) {
		visit.Say(&agentv1.FromController{Payload: &agentv1.FromController_Renewed{Renewed: &agentv1.Renewed{Certificate: certificate}}})
	}
	renew([]byte{1})
	a.said.await(t, "ERROR", "cannot renew the certificate")
	renewed := a.brain.Authority.Agent("phone", &identity.Key.PublicKey)
	renew(renewed.Raw)
	a.said.await(t, "WARN", "this host has a new certificate")
	a.brain.Welcomed(60000)
	if identity, err = trust.Load(a.directory); err != nil || !bytes.Equal(identity.Certificate.Raw, renewed.Raw) {
		t.Fatalf("%v, %v, expected the new certificate", identity.Certificate, err)
	}
}
