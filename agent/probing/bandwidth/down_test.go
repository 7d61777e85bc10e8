// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"bytes"
	"compress/flate"
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// slow limits the way back so that it spaces trains. A plain veth is faster than the hosts.
func (p *path) slow() {
	p.t.Helper()
	p.server.Run("tc", "qdisc", "add", "dev", "wifi", "root", "tbf", "rate", "20mbit", "burst", "1600", "limit", "200000")
}

func TestDownMeasuresAnswersOfTheLengths(t *testing.T) {
	for _, at := range []string{"10.1.0.2:0", "[fd01::2]:0"} {
		p := newPath(t, at, testKey)
		p.slow()
		plan := Plan{lengthsOf(t, "64-1440/86"), 6, 2 * time.Millisecond, 5, 20, true}
		result := p.measure(plan)
		singles := len(plan.Lengths) * plan.Tries
		if len(result.Samples) != singles+100-20*result.LeftOut || result.LeftOut == 5 || result.Lost() != 0 || result.Ended != nil || !result.Down || result.Queued {
			t.Fatalf("%d packets, %d lost, %v\n%s", len(result.Samples), result.Lost(), result.Ended, summary(result))
		}
		for try := range slices.Chunk(result.Samples[:singles], len(plan.Lengths)) {
			var lengths []int
			for _, s := range try {
				lengths = append(lengths, s.Length)
			}
			slices.Sort(lengths)
			if !slices.Equal(lengths, plan.Lengths) {
				t.Fatalf("a try of %v", lengths)
			}
		}
		unknown := 0
		for n, s := range result.Samples {
			if s.Sent == 0 || s.Received == 0 { // before the kernel began to timestamp
				unknown++
			} else if s.Sent > s.Received || s.Answered != 0 || s.Returned != 0 {
				t.Fatalf("packet %d: %+v", n, s)
			}
			if n >= singles && (s.Train == 0 || s.Length != slices.Max(plan.Lengths)) {
				t.Fatalf("packet %d: %+v, expected it in a train", n, s)
			}
		}
		if unknown > len(result.Samples)/2 {
			t.Fatalf("of %d packets the times are not known", unknown)
		}
		if c := p.reflector.Counters(); c.Unauthenticated+c.Replays+c.Refused+c.Unsent != 0 || c.Answered < 200 {
			t.Fatalf("%+v", c)
		}
		var file strings.Builder
		if result.Write(&file); !strings.Contains(file.String(), " direction=down\n") || !strings.Contains(summary(result), "asked for ") {
			t.Fatalf("%.100q, %s", file.String(), summary(result))
		}
	}
}

func TestDownCountsLostAnswersByLength(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	p.client.Run("nft", "add table inet t; add chain inet t in { type filter hook prerouting priority 0; }; "+
		"add rule inet t in udp length 1008 drop; add rule inet t in udp length > 72 numgen random mod 10 0 drop")
	plan := Plan{Lengths: lengthsOf(t, "100-1450/150"), Tries: 30, Every: time.Millisecond, Down: true}
	result := p.measure(plan)
	lost, there := 0, 0
	for _, s := range result.Samples {
		if s.Came && s.Length == 1000 {
			t.Fatalf("%+v came, expected all of that length to be lost", s)
		}
		if s.Length != 1000 && !s.Came {
			lost++
			if s.Received != 0 {
				t.Fatalf("%+v is lost", s)
			}
			if s.Sent != 0 { // reported by a later answer
				there++
			}
		}
	}
	if lost == 0 || lost > len(result.Samples)/3 || there == 0 || result.Ended != nil {
		t.Fatalf("%d of %d lost, %v; of %d it is known when they left; expected a tenth, and most of these",
			lost, len(result.Samples), result.Ended, there)
	}
}

func TestDownFindsThePathMTU(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	p.slow()
	plan := Plan{lengthsOf(t, "64-1440/43"), 3, time.Millisecond, 4, 10, true}
	const said, longest = "no packet longer than 1182 bytes arrived, of 18 sent: path MTU 1210\n", 1182
	check := func() {
		t.Helper()
		result := p.measure(plan)
		if last := result.Samples[len(result.Samples)-1]; !strings.Contains(summary(result), said) || last.Length != longest {
			t.Fatalf("%s\nexpected %q, and trains of so long packets, not %d", summary(result), said, last.Length)
		}
	}
	p.server.Run("ip", "link", "set", "wifi", "mtu", "1224") // the host knows the MTU
	check()
	if c := p.reflector.Counters(); c.Unsent != 18 {
		t.Fatalf("%+v, expected 18 answers that could not be sent", c)
	}
	p.server.Run("ip", "link", "set", "wifi", "mtu", "1500")
	p.client.Run("nft", "add table inet t; add chain inet t in { type filter hook prerouting priority 0; }; "+
		"add rule inet t in meta length > 1224 drop") // dropped silently on the way
	p.reflector.lock.Lock()
	p.reflector.authenticator.heard = 0 // end the previous session
	p.reflector.lock.Unlock()
	check()
}

func TestReflectorSurvivesAnyRequestedLength(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	prober := p.prober()
	if err := prober.open(context.Background()); err != nil {
		t.Fatal(err)
	}
	asked := []int{0, 1, 63, 64, 1473, Longest, Longest + 1, 1<<16 - 1, 1472}
	for n, length := range asked {
		if _, err := prober.socket.Write(request{head{prober.session, uint32(1 + n)}, length}.seal(&testKey)); err != nil {
			t.Fatal(err)
		}
	}
	prober.down, prober.ledger.down = true, true
	for range asked {
		prober.ledger.begin(0, 64)
	}
	go prober.listen()
	p.once(3, prober.Close) // the opening and two requests
	if c := p.reflector.Counters(); c.Unsent != 2 || c.Unauthenticated != 5 || c.Answered != 3 {
		t.Fatalf("%+v, expected 2 that could not be sent, and 5 that are no requests", c)
	}
}

func TestLongAnswersAreIncompressible(t *testing.T) {
	r := Reflector{authenticator: newAuthenticator(testKey), filler: newFiller()}
	var small bytes.Buffer
	squeeze, err := flate.NewWriter(&small, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	const packets, length = 100, 1440
	for n := range packets {
		squeeze.Write(r.sealed(answer{head: head{7, uint32(n)}}, length))
	}
	squeeze.Close()
	if small.Len() < packets*(length-answerBytes) {
		t.Fatalf("%d bytes become %d", packets*length, small.Len())
	}
}

func TestCheckRefusesInvalidPlansDown(t *testing.T) {
	good := Plan{Lengths: []int{ShortestDown, wholeAnswer}, Tries: 1, Every: shortestStep, Trains: 1, TrainPackets: maxTrain, Down: true}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for said, change := range map[string]func(*Plan){
		"length 63, expected 64 to 65507": func(p *Plan) { p.Lengths = []int{1440, 63} },
		"expected 400µs to 1m0s; no more than 5000 a second with 1500 bytes are answered": func(p *Plan) {
			p.Lengths = []int{2 * wholeAnswer}
		},
		"expected 2 to 500 packets": func(p *Plan) { p.Lengths, p.Every, p.TrainPackets = []int{4 * wholeAnswer}, time.Millisecond, 501 },
		"expected at least one":     func(p *Plan) { p.Lengths = nil },
	} {
		plan := good
		change(&plan)
		if err := plan.Check(); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, expected %q in it", err, said)
		}
	}
}

func TestResultLeavesOutTrainsSpacedBefore(t *testing.T) {
	const us, packets = int64(1000), 20
	type train struct{ written, near int64 } // ns between packets
	behind, spaced, stalled := train{170 * us, 170 * us}, train{10 * us, 590 * us}, train{170 * us, 2000 * us}
	for name, each := range map[string]struct {
		trains  []train
		leftOut int
	}{
		"a slow way there":                    {[]train{behind, behind, behind, behind}, 4},
		"that, and two stalls":                {[]train{behind, stalled, stalled, behind, behind}, 5},
		"a slow way here":                     {[]train{spaced, spaced, spaced}, 0},
		"that, and one that was asked slowly": {[]train{spaced, behind, spaced}, 1},
		"a way here that is hardly slower":    {[]train{{170 * us, 186 * us}}, 1},
		"a way here that is slower":           {[]train{{170 * us, 188 * us}}, 0},
	} {
		l := ledger{down: true, of: map[uint32]*[2]int64{}}
		for at, train := range each.trains {
			for n := range int64(packets) {
				l.begin(1+at, 1440)
				said := answer{head: head{7, l.number() - 1}, received: 1, length: 1440, written: 1 + n*train.written}
				l.addAnswer(said, 2e15+n*train.near)
			}
		}
		l.begin(0, 64)
		r := l.result(len(l.entries))
		if r.LeftOut != each.leftOut || len(r.Samples) != 1+packets*(len(each.trains)-each.leftOut) ||
			strings.Contains(summary(r), "left out") != (each.leftOut > 0) {
			t.Errorf("%s: %d trains are left out, %d packets stay, expected %d", name, r.LeftOut, len(r.Samples), each.leftOut)
		}
	}
}
