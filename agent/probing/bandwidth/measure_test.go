// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/internal/lab"
)

// path is a client's interface towards a server with a reflector.
type path struct {
	t              *testing.T
	client, server *lab.Host
	reflector      *Reflector
	ended          chan error
}

func newPath(t *testing.T, at string, key Key) *path {
	p := &path{t: t, ended: make(chan error, 1)}
	p.client, p.server = lab.Two(t)
	p.server.Do(func() (err error) {
		p.reflector, err = Open(Settings{At: netip.MustParseAddrPort(at), Key: key})
		return err
	})
	go func() { p.ended <- p.reflector.Run(context.Background()) }()
	t.Cleanup(p.reflector.Close)
	return p
}

func (p *path) prober() (prober *Prober) {
	p.t.Helper()
	to := p.reflector.Local()
	p.client.Do(func() (err error) {
		prober, err = Dial(to, "wifi", testKey)
		return err
	})
	p.t.Cleanup(prober.Close)
	prober.silence, prober.closesIn = time.Minute, 2500*time.Millisecond // tolerates a stall of two seconds
	return prober
}

func (p *path) measure(plan Plan) Result {
	p.t.Helper()
	result, err := p.prober().Measure(context.Background(), plan)
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// once runs work after this many probes were answered.
func (p *path) once(answers uint64, work func()) {
	for p.t.Context().Err() == nil && p.reflector.Counters().Answered < answers {
		time.Sleep(time.Millisecond)
	}
	work()
}

func lengthsOf(t *testing.T, text string) []int {
	t.Helper()
	lengths, err := ParseLengths(text)
	if err != nil {
		t.Fatal(err)
	}
	return lengths
}

func summary(r Result) string {
	var said strings.Builder
	r.Summary(&said)
	return said.String()
}

func TestMeasureReturnsFourTimesPerPacket(t *testing.T) {
	for _, at := range []string{"10.1.0.2:0", "[fd01::2]:0"} {
		p := newPath(t, at, testKey)
		plan := Plan{lengthsOf(t, "16-1440/89"), 6, 2 * time.Millisecond, 5, 20, false}
		result := p.measure(plan)
		singles := len(plan.Lengths) * plan.Tries
		if len(result.Samples) != singles+100 || result.Lost() != 0 || result.Ended != nil || result.Hardware || result.Queued {
			t.Fatalf("%d packets, %d lost, %v\n%s", len(result.Samples), result.Lost(), result.Ended, summary(result))
		}
		unknown := 0
		for n, s := range result.Samples {
			if s.Received == 0 || s.Answered == 0 { // before the kernel began to timestamp
				unknown++
				continue
			}
			if s.Sent == 0 || s.Sent > s.Received || s.Received > s.Answered || s.Answered > s.Returned {
				t.Fatalf("packet %d: %+v", n, s)
			}
			if s.Train != 0 && (s.Length != slices.Max(plan.Lengths) || s.Train != 1+(n-singles)/20) || s.Train == 0 && n >= singles {
				t.Fatalf("packet %d: %+v, expected it in train %d", n, s, 1+(n-singles)/20)
			}
		}
		if unknown > len(result.Samples)/2 {
			t.Fatalf("of %d packets the times are not known", unknown)
		}
		if c := p.reflector.Counters(); c.Unauthenticated+c.Replays+c.Refused != 0 || c.Answered < 200 {
			t.Fatalf("%+v", c)
		}
	}
}

func TestMeasureEndsInAPauseBetweenTrains(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	ctx, end := context.WithCancel(t.Context())
	var ended time.Time
	go p.once(22, func() { // including the opening and a train
		ended = time.Now()
		end()
	})
	const every, train = 2 * time.Second, 20
	result, err := p.prober().Measure(ctx, Plan{[]int{64}, 1, every, 3, train, false})
	if addAnswer := time.Since(ended); err != nil || result.Ended == nil || len(result.Samples) != 1+train || addAnswer > train*every {
		t.Fatalf("%d packets, %v, %v, %v after its end", len(result.Samples), result.Ended, err, addAnswer)
	}
}

func TestSinglesShufflesEachTry(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	plan := Plan{Lengths: lengthsOf(t, "16-1440/89"), Tries: 8, Every: 3 * time.Millisecond}
	result := p.measure(plan)
	var before []int
	for try := range slices.Chunk(result.Samples, len(plan.Lengths)) {
		var lengths []int
		for _, s := range try {
			lengths = append(lengths, s.Length)
		}
		if slices.Equal(lengths, before) || slices.IsSorted(lengths) {
			t.Fatalf("%v after %v", lengths, before)
		}
		before = slices.Clone(lengths)
		slices.Sort(lengths)
		if !slices.Equal(lengths, plan.Lengths) {
			t.Fatalf("a try of %v", lengths)
		}
	}
}

func TestTimedPacketsKeepTheMinimumPause(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	plan := Plan{Lengths: lengthsOf(t, "16-1440/89"), Tries: 8, Every: 3 * time.Millisecond}
	result := p.measure(plan)
	closer := 0
	for n, s := range result.Samples[1:] {
		if time.Duration(s.Sent-result.Samples[n].Sent) < plan.Every*99/100 { // tolerates a slewed clock
			closer++
		}
	}
	if closer > 0 {
		t.Fatalf("%d packets were closer to the one before than %v", closer, plan.Every)
	}
	planned := time.Duration(len(result.Samples)) * plan.Every
	if result.Late.Packets == 0 && result.Took > planned*12/10 {
		t.Fatalf("it took %v and nothing was late, expected %v", result.Took, planned)
	}
}

func TestWriteFormatsSamples(t *testing.T) {
	var file strings.Builder
	Result{Samples: []Sample{{0, 16, true, 1, 2, 3, 4}, {2, 1440, false, 5, 0, 0, 0}}}.Write(&file)
	const expected = `# bicast probe 1 stamps=software transport=udp
train,length,sent_ns,received_ns,answered_ns,returned_ns
0,16,1,2,3,4
2,1440,5,,,
`
	if file.String() != expected {
		t.Fatalf("%q, expected %q", file.String(), expected)
	}
	six := Result{Hardware: true, FarHardware: true, Six: true}
	if err := six.Write(&file); err != nil || !strings.Contains(file.String(), " stamps=hardware transport=udp6\n") {
		t.Fatalf("%v, %q", err, file.String())
	}
}

func TestReorderedCountsOvertakenPackets(t *testing.T) {
	r := Result{}
	for _, received := range []int64{10, 20, 50, 30, 40, 0, 60} {
		r.Samples = append(r.Samples, Sample{Received: received, Came: received != 0})
	}
	if r.Reordered() != 1 || r.Lost() != 1 {
		t.Fatalf("%d reordered, %d lost, expected 1 and 1", r.Reordered(), r.Lost())
	}
}

func TestMeasureCountsALostAnswerAsLoss(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	p.server.Run("nft", "add table inet t; add chain inet t out { type filter hook output priority 0; }; "+
		"add rule inet t out udp length 72 numgen random mod 10 0 drop")
	plan := Plan{Lengths: lengthsOf(t, "16-1440/89"), Tries: 12, Every: time.Millisecond}
	result := p.measure(plan)
	lost := result.Lost()
	if lost == 0 || lost > len(result.Samples)/3 || result.Ended != nil {
		t.Fatalf("%d of %d lost, %v; expected a tenth", lost, len(result.Samples), result.Ended)
	}
	if longest, _ := result.Through(); longest != 0 {
		t.Fatalf("%d is reported as the longest length that passes", longest)
	}
}

func TestMeasureFindsThePathMTU(t *testing.T) {
	for _, each := range []struct {
		at, mtu, said string
		longest       int
	}{
		{"10.1.0.2:0", "1244", "no packet longer than 1216 bytes arrived, of 12 sent: path MTU 1244\n", 1216},
		{"[fd01::2]:0", "1312", "no packet longer than 1264 bytes arrived, of 9 sent: path MTU 1312\n", 1264},
	} {
		p := newPath(t, each.at, testKey)
		p.client.Run("ip", "link", "set", "wifi", "mtu", each.mtu) // the host knows the MTU
		plan := Plan{lengthsOf(t, "16-1440/48"), 3, time.Millisecond, 2, 10, false}
		result := p.measure(plan)
		if last := result.Samples[len(result.Samples)-1]; !strings.Contains(summary(result), each.said) || last.Length != each.longest {
			t.Fatalf("%s\nexpected %q, and trains of so long packets, not %d", summary(result), each.said, last.Length)
		}
		p.client.Run("ip", "link", "set", "wifi", "mtu", "1500")
		p.server.Run("nft", "add table inet t; add chain inet t in { type filter hook prerouting priority 0; }; "+
			"add rule inet t in meta length > "+each.mtu+" drop") // dropped silently on the way
		p.reflector.lock.Lock()
		p.reflector.authenticator.heard = 0 // end the previous session
		p.reflector.lock.Unlock()
		if said := summary(p.measure(plan)); !strings.Contains(said, each.said) {
			t.Fatalf("%s\nexpected %q", said, each.said)
		}
	}
}

func TestReplayedOpeningsDoNotDisturbAProbe(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	prober := p.prober()
	const again = 100
	sent := make(chan struct{})
	go p.once(50, func() {
		defer close(sent)
		for range again { // with the prober's source address forged
			prober.socket.Write(handshake{session: prober.session, ticket: 1}.seal(&testKey, kindOpening))
		}
	})
	result, err := prober.Measure(context.Background(), Plan{Lengths: lengthsOf(t, "16-1440/89"), Tries: 20, Every: 2 * time.Millisecond})
	<-sent
	if err != nil || result.Ended != nil || result.Lost() != 0 {
		t.Fatalf("%d lost, %v, %v", result.Lost(), err, result.Ended)
	}
	if c := p.reflector.Counters(); c.Replays != again || c.Refused != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestMeasureKeepsSamplesWhenThePeerStops(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	plan := Plan{Lengths: lengthsOf(t, "16-1440/16"), Tries: 1000, Every: time.Millisecond}
	prober := p.prober()
	go func() { // a busy prober reads answers late
		for heard, _ := prober.ledger.progress(); heard < 50 && t.Context().Err() == nil; heard, _ = prober.ledger.progress() {
			time.Sleep(time.Millisecond)
		}
		p.reflector.Close()
	}()
	result, err := prober.Measure(context.Background(), plan)
	if err != nil || result.Ended == nil || !strings.Contains(result.Ended.Error(), "connection refused") {
		t.Fatalf("%v, %v", err, result.Ended)
	}
	came := 0
	for _, s := range result.Samples {
		if s.Came {
			came++
		}
	}
	if came < 20 || result.Lost() != len(result.Samples)-came {
		t.Fatalf("%d of %d packets came, %d are lost", came, len(result.Samples), result.Lost())
	}
	if err := <-p.ended; err != nil {
		t.Fatal(err)
	}
}

func TestMeasureEndsWhenThePeerIsSilent(t *testing.T) { fallsSilent(t) }

func TestTimedMeasureEndsSoonWhenThePeerIsSilent(t *testing.T) {
	if addAnswer := fallsSilent(t); addAnswer > 2*silence {
		t.Fatalf("it ended after %v", addAnswer)
	}
}

// fallsSilent cuts the path during a measurement and returns the measurement's remaining duration.
func fallsSilent(t *testing.T) time.Duration {
	p := newPath(t, "10.1.0.2:0", testKey)
	prober := p.prober()
	prober.silence = time.Second
	plan := Plan{Lengths: lengthsOf(t, "16-1440/16"), Tries: 1000, Every: 10 * time.Millisecond}
	var began time.Time
	cut := make(chan struct{})
	go p.once(10, func() {
		began = time.Now()
		p.server.Try(func() error { return exec.Command("ip", "link", "set", "wifi", "down").Run() })
		close(cut)
	})
	result, err := prober.Measure(context.Background(), plan)
	<-cut
	addAnswer := time.Since(began)
	if err != nil || result.Ended == nil || !strings.Contains(result.Ended.Error(), "the peer stopped") || addAnswer < prober.silence/2 {
		t.Fatalf("%v, %v after %v", err, result.Ended, addAnswer)
	}
	if !result.Samples[0].Came || result.Lost() == 0 {
		t.Fatalf("%s", summary(result))
	}
	return addAnswer
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	result, err := p.prober().Measure(ctx, Plan{Lengths: []int{16}, Tries: 1000, Every: 10 * time.Millisecond})
	if err != nil && !strings.Contains(err.Error(), "was ended before") || err == nil && result.Ended == nil {
		t.Fatalf("%v and %+v", err, result.Ended)
	}
}

func TestMeasureFailsAtOnceWhenNobodyListens(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", testKey)
	prober := p.prober()
	p.reflector.Close()
	<-p.ended
	_, err := prober.Measure(context.Background(), Plan{Lengths: []int{16}, Tries: 1, Every: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "nobody listens at 10.1.0.2") { // after openTimeout the text differs
		t.Fatal(err)
	}
}

func TestReflectorIgnoresAnotherKey(t *testing.T) {
	p := newPath(t, "10.1.0.2:0", Key{66})
	prober := p.prober()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := prober.Measure(ctx, Plan{Lengths: []int{16}, Tries: 1, Every: time.Millisecond})
		failed <- err
	}()
	for p.reflector.Counters().Unauthenticated < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("it was answered")
	}
	if c := p.reflector.Counters(); c.Answered != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestCheckRefusesInvalidPlans(t *testing.T) {
	good := Plan{Lengths: []int{16}, Tries: 1, Every: time.Millisecond}
	for name, change := range map[string]func(*Plan){
		"short": func(p *Plan) { p.Lengths = []int{15} }, "none": func(p *Plan) { p.Lengths = nil }, "tries": func(p *Plan) { p.Tries = 0 },
		"flood": func(p *Plan) { p.Every = time.Second/answersPerSecond - 1 }, "train": func(p *Plan) { p.Trains, p.TrainPackets = 1, 1 },
		"sleep": func(p *Plan) { p.Every = longestPause + 1 },
		"rest":  func(p *Plan) { p.Every, p.Trains, p.TrainPackets = longestPause/10, 1, 11 },
	} {
		plan := good
		change(&plan)
		if plan.Check() == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	for _, every := range []time.Duration{good.Every, time.Second / answersPerSecond, longestPause} {
		good.Every = every
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range []string{"", "15-20/1", "20-16/1", "16-20/0", "16-99999/1", "a", "16-20/1/2"} {
		if lengths, err := ParseLengths(wrong); err == nil {
			t.Errorf("%q is %v", wrong, lengths)
		}
	}
	if lengths, err := ParseLengths("16-1440/16"); err != nil || len(lengths) != 90 || lengths[89] != 1440 {
		t.Errorf("%v, %v", lengths, err)
	}
}

func TestPaceDoesNotCatchUp(t *testing.T) {
	p := pace{every: time.Second, due: 10 * time.Second}
	p.after(10*time.Second+time.Millisecond, 1050*time.Millisecond, time.Second) // within the jitter
	if p.due != 11050*time.Millisecond {
		t.Fatalf("the next is due at %v", p.due)
	}
	p.after(20*time.Second, 1050*time.Millisecond, time.Second)
	if p.due != 21*time.Second {
		t.Fatalf("the next is due at %v, closer than a second", p.due)
	}
}
