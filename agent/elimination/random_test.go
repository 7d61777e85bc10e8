// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"cmp"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

var (
	seed   = flag.Uint64("seed", 1, "of what the tests with random paths draw")
	trials = flag.Int("trials", 50, "of each test with random paths")
)

// journey has the packets of some flows as they arrive over paths that lose, delay and repeat them, with the verdicts.
type journey struct {
	random   *rand.Rand
	paths    int
	arrivals []coming
}

type coming struct {
	at            float64
	path          int
	sent          uint64 // its number; equal packets have equal numbers
	frame         []byte
	unforwardable bool // the site does not forward it, so it is no evidence that a copy arrived
	drops         bool
}

// sent makes a packet of a flow. Packets of a flow differ in their number only.
func sent(flow int, number uint64) (packet func(ttl uint8) []byte) {
	tail := binary.BigEndian.AppendUint64(slices.Repeat([]byte{byte(flow)}, 8+7*flow), number)
	p := ipv4{source: byte(flow), protocol: udp, payload: tail}
	switch flow {
	case 0: // numbered by its sender
		p.id = uint16(number)
	case 1:
		p.protocol, p.flags, p.id = tcp, dontFragment, uint16(number)
	case 2: // not numbered
		p.flags = dontFragment
	case 3:
		p.protocol = esp
	case 4:
		p.id, p.flags = uint16(number), uint16(0x2000|number%8)
	case 5:
		p.protocol, p.tags = icmp, []uint16{7, 8}
	case 6:
		return func(ttl uint8) []byte { return ipv6{label: 5, hops: ttl, next: udp, payload: tail}.frame() }
	default: // a hop-by-hop header in front
		extended := append([]byte{udp, 0, 1, 4, 0, 0, 0, 0}, tail...)
		return func(ttl uint8) []byte { return ipv6{hops: ttl, payload: extended}.frame() }
	}
	return func(ttl uint8) []byte {
		p := p
		p.ttl = ttl
		return p.frame()
	}
}

const flows = 8

// unforwardableFrame returns the packet with an expiring TTL or another destination MAC: the site does not forward it.
func unforwardableFrame(random *rand.Rand, flow int, number uint64) []byte {
	if random.IntN(2) == 0 {
		return sent(flow, number)(uint8(1 + random.IntN(2)))
	}
	frame := sent(flow, number)(64)
	frame[random.IntN(6)] ^= 1 << random.IntN(8)
	return frame
}

// newJourney sends this many packets. In each flow, groups of `again` packets are equal.
func newJourney(random *rand.Rand, paths, packets, again int, repeats bool) *journey {
	j := &journey{random: random, paths: paths}
	for path := range paths {
		lost := []float64{0, 0.01, 0.2, 0.8}[random.IntN(4)]
		late := []float64{0, 3, 40}[random.IntN(3)]
		repeated := 0.0
		if repeats {
			repeated = []float64{0, 0.1}[random.IntN(2)]
		}
		for n := range packets {
			flow, number := n%flows, uint64(n/flows/again*flows+n%flows)
			frame := sent(flow, number)(uint8(60 + path))
			for copies := 1; copies > 0; copies-- {
				if random.Float64() < lost {
					continue
				}
				at := float64(n) + late*random.Float64()
				j.arrivals = append(j.arrivals, coming{at: at, path: path, sent: number, frame: frame})
				if random.Float64() < 0.1 {
					at -= 2 * random.Float64() // before the sound copy, or after another path's
					j.arrivals = append(j.arrivals, coming{at: at, path: path, sent: number, frame: unforwardableFrame(random, flow, number), unforwardable: true})
				}
				if random.Float64() < repeated {
					copies++
				}
			}
		}
	}
	random.Shuffle(len(j.arrivals), func(a, b int) { j.arrivals[a], j.arrivals[b] = j.arrivals[b], j.arrivals[a] })
	slices.SortStableFunc(j.arrivals, func(a, b coming) int { return cmp.Compare(a.at, b.at) })
	return j
}

// runs runs the program on all arrivals, and the rule if there is one. Sometimes time passes in between.
func (j *journey) runs(b *bench, beside *rule, whiles ...time.Duration) {
	b.t.Helper()
	evicted := b.evicted()
	for n := range j.arrivals {
		one := &j.arrivals[n]
		if len(whiles) > 0 && j.random.IntN(40) == 0 {
			while := whiles[j.random.IntN(len(whiles))]
			b.while(while)
			beside.now += while
		}
		verdict := b.comes(one.path, one.frame)
		one.drops = verdict == dropped
		if beside == nil {
			continue
		}
		if expected := beside.comes(one.path, one.frame); verdict != expected {
			if beside.room > ways && b.evicted() > evicted {
				beside = nil // the rule does not know which of several buckets was full
				continue
			}
			b.t.Fatalf("arrival %d, number %d by path %d: verdict %d, by the rule %d", n, one.sent, one.path, verdict, expected)
		}
	}
}

func (b *bench) evicted() (all uint64) {
	b.t.Helper()
	for _, each := range b.counters() {
		all += each.Evicted
	}
	return all
}

// fate is the verdicts on all packets with one number.
type fate struct {
	passed  int
	arrived [3]int // by each path
}

func (j *journey) fates() map[uint64]*fate {
	fates := map[uint64]*fate{}
	for _, one := range j.arrivals {
		if one.unforwardable {
			continue
		}
		if fates[one.sent] == nil {
			fates[one.sent] = &fate{}
		}
		fates[one.sent].arrived[one.path]++
		if !one.drops {
			fates[one.sent].passed++
		}
	}
	return fates
}

// most is the largest number of arrivals on one path, all the number on all paths, and paths the number of paths with any.
func (f fate) most() (most, all, paths int) {
	for _, arrived := range f.arrived {
		most, all = max(most, arrived), all+arrived
		paths += min(arrived, 1)
	}
	return most, all, paths
}

// while makes time pass for the recorded packets.
func (b *bench) while(long time.Duration) {
	b.t.Helper()
	type bucket struct {
		Lock       uint32
		Path, Seen [ways]uint8
		_          [6]uint8
		Hash       [ways]uint64
		FirstNS    [ways]uint64
	}
	if unsafe.Sizeof(bucket{}) != uintptr(b.e.objects.Seen.ValueSize()) {
		b.t.Fatal("this is not what bpf/eliminate.bpf.c calls a bucket")
	}
	for index := range b.e.objects.Seen.MaxEntries() {
		var one bucket
		if err := b.e.objects.Seen.Lookup(index, &one); err != nil {
			b.t.Fatal(err)
		}
		for n := range one.FirstNS {
			if one.FirstNS[n] != 0 {
				one.FirstNS[n] = max(one.FirstNS[n], uint64(long)+1) - uint64(long)
			}
		}
		if err := b.e.objects.Seen.Put(index, &one); err != nil {
			b.t.Fatal(err)
		}
	}
}

// each runs a test with 2 paths and with 3, each time with other random numbers.
func each(t *testing.T, identities int, test func(b *bench, random *rand.Rand, paths int)) {
	for paths := 2; paths <= 3; paths++ {
		b := newBench(t, identities, paths)
		drawn := *seed
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("again with: -run '^%s$' -args -seed %d -trials 1", t.Name(), drawn)
			}
		})
		for range *trials {
			b.forgets()
			if b.e.buckets <= 1<<8 { // otherwise old entries would count as evicted
				b.while(2 * time.Minute)
			}
			test(b, rand.New(rand.NewPCG(drawn, uint64(paths))), paths)
			if t.Failed() {
				return
			}
			drawn++
		}
		if b.counters()[wifi].Unidentified > 0 {
			t.Fatal("these packets have identities")
		}
	}
}

func TestDifferentPacketsPassExactlyOnce(t *testing.T) {
	each(t, identities, func(b *bench, random *rand.Rand, paths int) {
		j := newJourney(random, paths, 200, 1, false)
		j.runs(b, newRule(time.Minute, identities, paths))
		for number, f := range j.fates() {
			if f.passed != 1 {
				t.Errorf("number %d: %+v, expected that it passes once", number, *f)
			}
		}
	})
}

func TestEqualPacketsPassAboutAsOftenAsOnTheBestPath(t *testing.T) {
	each(t, identities, func(b *bench, random *rand.Rand, paths int) {
		j := newJourney(random, paths, 200, 1+random.IntN(6), true)
		j.runs(b, newRule(time.Minute, identities, paths))
		for number, f := range j.fates() {
			if most, all, paths := f.most(); f.passed < most || f.passed > all-(paths-1) {
				t.Errorf("number %d: %+v, expected that %d to %d pass", number, *f, most, all-(paths-1))
			}
		}
	})
}

func TestEliminationNeverLosesMoreThanTheBestPath(t *testing.T) {
	for name, c := range map[string]struct {
		identities int
		exact      bool
		whiles     []time.Duration
	}{
		"one bucket":                       {ways, true, nil},
		"one bucket, and windows that end": {ways, true, []time.Duration{25 * time.Second, 70 * time.Second}},
		"windows that end":                 {1 << 10, true, []time.Duration{25 * time.Second, 70 * time.Second}},
		"some buckets":                     {16 * ways, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, c.identities, func(b *bench, random *rand.Rand, paths int) {
				var beside *rule
				if c.exact {
					beside = newRule(time.Minute, c.identities, paths)
				}
				j := newJourney(random, paths, 100, 1+random.IntN(3), true)
				j.runs(b, beside, c.whiles...)
				for number, f := range j.fates() {
					if most, _, _ := f.most(); f.passed < most {
						t.Errorf("number %d: %+v, expected that %d pass", number, *f, most)
					}
				}
			})
		})
	}
}
