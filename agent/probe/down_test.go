package probe

import (
	"bytes"
	"compress/flate"
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheWayBackIsMeasuredByAnswersOfTheLengths(t *testing.T) {
	for _, at := range []string{"10.1.0.2:0", "[fd01::2]:0"} {
		p := newPath(t, at, testKey)
		plan := Plan{lengthsOf(t, "64-1440/86"), 6, 2 * time.Millisecond, 5, 20, true}
		result := p.measure(plan)
		singles := len(plan.Lengths) * plan.Tries
		if len(result.Samples) != singles+100 || result.Lost() != 0 || result.Ended != nil || !result.Down || result.Queued {
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
			if s.Sent == 0 || s.Received == 0 { // a kernel had not begun to stamp
				unknown++
			} else if s.Sent > s.Received || s.Answered != 0 || s.Heard != 0 {
				t.Fatalf("packet %d: %+v", n, s)
			}
			if n >= singles && (s.Train != 1+(n-singles)/20 || s.Length != slices.Max(plan.Lengths)) {
				t.Fatalf("packet %d: %+v, expected it in train %d", n, s, 1+(n-singles)/20)
			}
		}
		if unknown > len(result.Samples)/2 {
			t.Fatalf("of %d packets the times are not known", unknown)
		}
		if c := p.reflector.Counters(); c.Strangers+c.Replays+c.Refused+c.Unsent != 0 || c.Answered < 200 {
			t.Fatalf("%+v", c)
		}
		var file strings.Builder
		if result.Write(&file); !strings.Contains(file.String(), " direction=down\n") || !strings.Contains(summary(result), "asked for 202 packets in ") {
			t.Fatalf("%.100q, %s", file.String(), summary(result))
		}
	}
}

func TestAnAnswerThatIsLostIsOneAndItsOwnLength(t *testing.T) {
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
			if s.Sent != 0 { // a later answer told
				there++
			}
		}
	}
	if lost == 0 || lost > len(result.Samples)/3 || there == 0 || result.Ended != nil {
		t.Fatalf("%d of %d lost, %v; of %d it is known when they left; expected a tenth, and most of these",
			lost, len(result.Samples), result.Ended, there)
	}
}

func TestWhatIsLongerThanTheWayBackCarriesIsSaid(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	plan := Plan{lengthsOf(t, "64-1440/43"), 3, time.Millisecond, 2, 10, true}
	const said, longest = "nothing longer than 1182 bytes came through, of 18 packets: path MTU 1210\n", 1182
	check := func() {
		t.Helper()
		result := p.measure(plan)
		if last := result.Samples[len(result.Samples)-1]; !strings.Contains(summary(result), said) || last.Length != longest {
			t.Fatalf("%s\nexpected %q, and trains of so long packets, not %d", summary(result), said, last.Length)
		}
	}
	p.server.Run("ip", "link", "set", "wifi", "mtu", "1224") // it knows
	check()
	if c := p.reflector.Counters(); c.Unsent != 18 {
		t.Fatalf("%+v, expected 18 answers that could not be sent", c)
	}
	p.server.Run("ip", "link", "set", "wifi", "mtu", "1500")
	p.client.Run("nft", "add table inet t; add chain inet t in { type filter hook prerouting priority 0; }; "+
		"add rule inet t in meta length > 1224 drop") // somebody on the way drops it, and says nothing
	p.reflector.lock.Lock()
	p.reflector.door.heard = 0 // the session before is over
	p.reflector.lock.Unlock()
	check()
}

func TestWhateverLengthIsAskedForTheReflectorGoesOn(t *testing.T) {
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
		prober.ledger.begin(0, 0, 64)
	}
	go prober.listen()
	p.once(3, prober.Close) // to the opening, and to two requests
	if c := p.reflector.Counters(); c.Unsent != 2 || c.Strangers != 5 || c.Answered != 3 {
		t.Fatalf("%+v, expected 2 that could not be sent, and 5 that are no requests", c)
	}
}

func TestAnAnswerOfALengthCannotBeCompressed(t *testing.T) {
	r := Reflector{door: newDoor(testKey), filler: newFiller()}
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

func TestAPlanOfTheWayBackThatCannotBeIsRefused(t *testing.T) {
	good := Plan{Lengths: []int{ShortestDown, wholeAnswer}, Tries: 1, Every: shortestStep, Trains: 1, TrainPackets: mostTrain, Down: true}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for said, change := range map[string]func(*Plan){
		"a length of 63: expected 64 to 65507": func(p *Plan) { p.Lengths = []int{1440, 63} },
		"expected 400µs to 1m0s; no more than 5000 a second with 1500 bytes are answered": func(p *Plan) {
			p.Lengths = []int{2 * wholeAnswer}
		},
		"expected 2 to 500 packets": func(p *Plan) { p.Lengths, p.Every, p.TrainPackets = []int{4 * wholeAnswer}, time.Millisecond, 501 },
		"expected one at least":     func(p *Plan) { p.Lengths = nil },
	} {
		plan := good
		change(&plan)
		if err := plan.Check(); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, expected %q in it", err, said)
		}
	}
}

func TestATrainThatTheWayThereSpacedSaysNothingOfTheWayHere(t *testing.T) {
	const us, packets = 1000, 40
	for name, each := range map[string]struct {
		written, there, here int64 // from one packet to the next, in ns
		stall                int64 // of us, in the middle
		leftOut              int
	}{
		"a slow way there":           {written: 10 * us, there: 170 * us, here: 170 * us, leftOut: 1},
		"a slow way here":            {written: 10 * us, there: 170 * us, here: 590 * us},
		"a way here that is slower":  {written: 10 * us, there: 170 * us, here: 190 * us},
		"two ways faster than hosts": {written: 10 * us, there: 10 * us, here: 10 * us},
		"a sender that stalled":      {written: 10 * us, there: 10 * us, here: 30 * us, stall: 200_000 * us},
	} {
		l := ledger{down: true, of: map[uint32]*[2]int64{}}
		for n := range int64(packets) {
			written := n * each.written
			if n > packets*3/4 {
				written += each.stall
			}
			l.begin(time.Duration(written), 1, 1440)
			there := max(1e15+n*each.there, 1e15+written)
			l.took(answer{head: head{7, uint32(n + 1)}, received: there, length: 1440}, max(2e15+n*each.here, there+1e15))
		}
		l.begin(time.Second, 0, 64)
		r := l.result(packets + 1)
		if r.LeftOut != each.leftOut || len(r.Samples) != 1+packets*(1-each.leftOut) || strings.Contains(summary(r), "left out") != (each.leftOut > 0) {
			t.Errorf("%s: %d trains are left out, %d packets stay, expected %d", name, r.LeftOut, len(r.Samples), each.leftOut)
		}
	}
}

func TestWhereMostTrainsWereSpacedOnTheWayThereAllWere(t *testing.T) {
	const trains, packets = 5, 20
	for stalled, leftOut := range map[int]int{0: 5, 2: 5, 3: 2} { // trains that came here later than they might have
		l := ledger{down: true, of: map[uint32]*[2]int64{}}
		for n := range trains * packets {
			there := time.Duration(n) * 170 * time.Microsecond
			here := there
			if n/packets < stalled {
				here *= 2
			}
			l.begin(time.Duration(n)*time.Microsecond, 1+n/packets, 1440)
			l.took(answer{head: head{7, uint32(n + 1)}, received: 1e15 + int64(there), length: 1440}, 2e15+int64(here))
		}
		if r := l.result(trains * packets); r.LeftOut != leftOut || len(r.Samples) != (trains-leftOut)*packets {
			t.Errorf("%d trains are left out, %d packets stay, expected %d", r.LeftOut, len(r.Samples), leftOut)
		}
	}
}
