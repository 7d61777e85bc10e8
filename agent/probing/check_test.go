// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/agent/probing/bandwidth"
	"bicast/api/agentv1"
)

var testKey = bandwidth.Key{1, 2, 3}

func answerSession(number uint32) *agentv1.AnswerSession {
	return &agentv1.AnswerSession{Number: number, Key: testKey[:], HealthPort: 8620, ProbePort: 8630 + number}
}

func healthPath(name string, number uint32) *agentv1.HealthPath {
	way := &agentv1.ProbeRoute{Device: "wifi", Remote: "10.1.0.2"}
	return &agentv1.HealthPath{Name: name, Route: way, Port: 8620, Number: number, Key: testKey[:], PauseMs: 20}
}

func probeOrder() *agentv1.Probe {
	return &agentv1.Probe{
		Name: "wifi", Route: &agentv1.ProbeRoute{Device: "wifi", Remote: "10.1.0.2"}, Port: 8631, Key: testKey[:],
		ShortestBytes: 64, LongestBytes: 1440, StepBytes: 172, Tries: 5, PauseUs: 1000, Trains: 2, TrainPackets: 10,
	}
}

// expectError requires a one-line error with all the words.
func expectError(t *testing.T, name string, err error, words string) {
	t.Helper()
	for _, word := range strings.Split(words, "|") {
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected a sentence with %q", name, err, word)
		}
	}
}

func TestCheckAnswerNamesTheExpectedValue(t *testing.T) {
	for words, change := range map[string]func(*agentv1.AnswerProbes){
		"session 2|31 bytes|expected 32": func(o *agentv1.AnswerProbes) { o.Sessions[1].Key = testKey[:31] },
		"session 2|33 bytes":             func(o *agentv1.AnswerProbes) { o.Sessions[1].Key = make([]byte, 33) },
		"session 2|0 bytes":              func(o *agentv1.AnswerProbes) { o.Sessions[1].Key = nil },
		"session 0|expected 1 to 65535":  func(o *agentv1.AnswerProbes) { o.Sessions[1].Number = 0 },
		"session 65536":                  func(o *agentv1.AnswerProbes) { o.Sessions[1].Number = 1 << 16 },
		"session 1|another session":      func(o *agentv1.AnswerProbes) { o.Sessions[1].Number = 1 },
		"session 2|port 8631":            func(o *agentv1.AnswerProbes) { o.Sessions[1].ProbePort = 8631 },
		"health port 0|expected 1 to":    func(o *agentv1.AnswerProbes) { o.Sessions[0].HealthPort = 0 },
		"health port 65536":              func(o *agentv1.AnswerProbes) { o.Sessions[0].HealthPort = 1 << 16 },
		"probe port 65536":               func(o *agentv1.AnswerProbes) { o.Sessions[0].ProbePort = 1 << 16 },
		"port 8620|for health and for probes": func(o *agentv1.AnswerProbes) {
			o.Sessions[0].ProbePort = 8620
		},
		"257 sessions|at most 256": func(o *agentv1.AnswerProbes) {
			for number := uint32(3); number <= 257; number++ {
				o.Sessions = append(o.Sessions, answerSession(number))
			}
		},
	} {
		order := &agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{answerSession(1), answerSession(2)}}
		if err := checkAnswer(order); err != nil {
			t.Fatal(err)
		}
		change(order)
		expectError(t, words, checkAnswer(order), words)
	}
	none := &agentv1.AnswerProbes{Sessions: []*agentv1.AnswerSession{answerSession(1), answerSession(2)}}
	for _, each := range none.Sessions {
		each.ProbePort = 0 // several sessions without probes
	}
	if err := checkAnswer(none); err != nil {
		t.Error(err)
	}
}

// invalidWays maps expected words to changes that make a way invalid.
var invalidWays = map[string]func(way *agentv1.ProbeRoute){
	`remote ""|expected the address of one host`: func(w *agentv1.ProbeRoute) { w.Remote = "" },
	`remote "far.example.org"`:                   func(w *agentv1.ProbeRoute) { w.Remote = "far.example.org" },
	`remote "0.0.0.0"`:                           func(w *agentv1.ProbeRoute) { w.Remote = "0.0.0.0" },
	`remote "::"`:                                func(w *agentv1.ProbeRoute) { w.Remote = "::" },
	`remote "224.0.0.1"`:                         func(w *agentv1.ProbeRoute) { w.Remote = "224.0.0.1" },
	`remote "ff02::1"`:                           func(w *agentv1.ProbeRoute) { w.Remote = "ff02::1" },
	`remote "::ffff:224.0.0.1"`:                  func(w *agentv1.ProbeRoute) { w.Remote = "::ffff:224.0.0.1" },
	`remote "255.255.255.255"`:                   func(w *agentv1.ProbeRoute) { w.Remote = "255.255.255.255" },
	`remote "fe80::1%wifi"`:                      func(w *agentv1.ProbeRoute) { w.Remote = "fe80::1%wifi" },
	`local "here"|of the remote's kind`:          func(w *agentv1.ProbeRoute) { w.Local = "here" },
	`local "fd01::1"`:                            func(w *agentv1.ProbeRoute) { w.Local = "fd01::1" },
	`local "0.0.0.0"`:                            func(w *agentv1.ProbeRoute) { w.Local = "0.0.0.0" },
	`device "../wifi"`:                           func(w *agentv1.ProbeRoute) { w.Device = "../wifi" },
	`device "a-name-of-16-let"`:                  func(w *agentv1.ProbeRoute) { w.Device = "a-name-of-16-let" },
}

func TestCheckHealthNamesTheExpectedValue(t *testing.T) {
	cases := map[string]func(*agentv1.HealthProbes){
		`path "lte"|31 bytes|expected 32`:    func(o *agentv1.HealthProbes) { o.Paths[1].Key = testKey[:31] },
		`path "lte"|port 0|expected 1 to`:    func(o *agentv1.HealthProbes) { o.Paths[1].Port = 0 },
		`path "lte"|port 65536`:              func(o *agentv1.HealthProbes) { o.Paths[1].Port = 1 << 16 },
		`path "lte"|session 0`:               func(o *agentv1.HealthProbes) { o.Paths[1].Number = 0 },
		`path "lte"|session 1|`:              func(o *agentv1.HealthProbes) { o.Paths[1].Number = 1 },
		`path "lte"|pause of 19 ms|20 to`:    func(o *agentv1.HealthProbes) { o.Paths[1].PauseMs = 19 },
		`path "lte"|pause of 60001 ms`:       func(o *agentv1.HealthProbes) { o.Paths[1].PauseMs = 60001 },
		`name "wifi"|used twice`:             func(o *agentv1.HealthProbes) { o.Paths[1].Name = "wifi" },
		`name ""|is empty`:                   func(o *agentv1.HealthProbes) { o.Paths[1].Name = "" },
		`path "lte"|expected the address of`: func(o *agentv1.HealthProbes) { o.Paths[1].Route = nil },
		"65 paths|at most 64": func(o *agentv1.HealthProbes) {
			for number := uint32(3); number <= 65; number++ {
				o.Paths = append(o.Paths, healthPath(strings.Repeat("x", int(number)), number))
			}
		},
	}
	for words, change := range invalidWays {
		cases[`path "lte"|`+words] = func(o *agentv1.HealthProbes) { change(o.Paths[1].Route) }
	}
	for words, change := range cases {
		order := &agentv1.HealthProbes{Paths: []*agentv1.HealthPath{healthPath("wifi", 1), healthPath("lte", 2)}}
		if err := checkHealth(order); err != nil {
			t.Fatal(err)
		}
		change(order)
		expectError(t, words, checkHealth(order), words)
	}
}

func TestPlanOfNamesTheExpectedValue(t *testing.T) {
	cases := map[string]func(*agentv1.Probe){
		"no name":                      func(o *agentv1.Probe) { o.Name = "" },
		"0 bytes, expected 32":         func(o *agentv1.Probe) { o.Key = nil },
		"port 0":                       func(o *agentv1.Probe) { o.Port = 0 },
		"15 to 1440|expected 16 to":    func(o *agentv1.Probe) { o.ShortestBytes = 15 },
		"63 to 1440|expected 64 to":    func(o *agentv1.Probe) { o.Down, o.ShortestBytes = true, 63 },
		"64 to 1441|16 to 1440":        func(o *agentv1.Probe) { o.LongestBytes = 1441 },
		"64 to 63":                     func(o *agentv1.Probe) { o.LongestBytes = 63 },
		"steps of 0":                   func(o *agentv1.Probe) { o.StepBytes = 0 },
		"0 tries":                      func(o *agentv1.Probe) { o.Tries = 0 },
		"4294967295 tries":             func(o *agentv1.Probe) { o.Tries = 1<<32 - 1 },
		"199 µs|expected 200":          func(o *agentv1.Probe) { o.PauseUs = 199 },
		"trains of 1 |expected 2":      func(o *agentv1.Probe) { o.TrainPackets = 1 },
		"trains of 201 ":               func(o *agentv1.Probe) { o.TrainPackets = 201 },
		"4294967295 trains":            func(o *agentv1.Probe) { o.Trains = 1<<32 - 1 },
		"20005 packets|20000 in 30m0s": func(o *agentv1.Probe) { o.Tries, o.Trains, o.TrainPackets, o.StepBytes = 4000, 1, 5, 300 },
		"1801 packets in 30m1":         func(o *agentv1.Probe) { o.Tries, o.Trains, o.StepBytes, o.PauseUs = 1801, 0, 5000, 1_000_000 },
	}
	for words, change := range invalidWays {
		cases[words] = func(o *agentv1.Probe) { change(o.Route) }
	}
	for words, change := range cases {
		order := probeOrder()
		change(order)
		_, err := planOf(order)
		expectError(t, words, err, words)
	}
}

func TestPlanOfReadsLengthsAndTrains(t *testing.T) {
	plan, err := planOf(probeOrder())
	if err != nil || len(plan.Lengths) != 9 || plan.Lengths[0] != 64 || plan.Lengths[8] != 1440 || plan.Down ||
		plan.Tries != 5 || plan.Every != time.Millisecond || plan.Trains != 2 || plan.TrainPackets != 10 {
		t.Fatalf("%+v, %v", plan, err)
	}
	one := proto.CloneOf(probeOrder())
	one.Down, one.ShortestBytes, one.LongestBytes, one.StepBytes, one.Trains = true, 1440, 1440, 1<<32-1, 0
	if plan, err = planOf(one); err != nil || len(plan.Lengths) != 1 || !plan.Down || lasts(plan) != 5*time.Millisecond {
		t.Fatalf("%+v, %v", plan, err)
	}
}
