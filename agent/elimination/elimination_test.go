// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTheFirstOfTwoCopiesPasses(t *testing.T) {
	b := newBench(t, 1024, 2)
	for id := range uint16(100) {
		first, second := int(id%2), int(1-id%2)
		b.expect(passed, first, numbered(id).frame(), "the first")
		b.expect(dropped, second, numbered(id).frame(), "its copy")
	}
	for path, c := range b.counters()[:2] {
		if c.First != 50 || c.Eliminated != 50 {
			t.Errorf("path %d: %+v, expected that either won half", path, c)
		}
	}
}

func TestARepetitionOnOnePathPasses(t *testing.T) {
	b := newBench(t, 1024, 2)
	same := numbered(7).frame()
	b.expect(passed, wifi, same, "the first")
	b.expect(dropped, lte, same, "its copy")
	b.expect(passed, wifi, same, "the second, which is another packet")
	b.expect(dropped, lte, same, "its copy")
	b.expect(passed, lte, same, "a third, first by the other path")
	if c := b.counters(); c[wifi].Rogue != 1 || c[lte].Rogue != 1 {
		t.Errorf("%+v", c[:2])
	}
}

func TestCopiesPassAfterTheWindowAndAfterTheLease(t *testing.T) {
	b := newBench(t, 1024, 2)
	b.renew(0, time.Minute)
	b.expect(passed, wifi, numbered(1).frame(), "the first")
	b.expect(passed, lte, numbered(1).frame(), "one after the window")
	if late := b.counters()[lte].Late; late != 1 {
		t.Errorf("%d late, expected 1", late)
	}
	b.renew(time.Minute, -time.Second)
	b.expect(passed, wifi, numbered(2).frame(), "the first")
	b.expect(passed, lte, numbered(2).frame(), "its copy, past the lease")
	b.renew(time.Minute, time.Minute)
	b.expect(passed, wifi, numbered(2).frame(), "the first, of which nothing was remembered")
}

func TestCopiesMatchDespiteFieldsThatRoutersChange(t *testing.T) {
	for name, changed := range map[string]func(p *ipv4){
		"TTL": func(p *ipv4) { p.ttl = 61 },
		"ECN": func(p *ipv4) { p.tos = 3 },
		"DF":  func(p *ipv4) { p.flags ^= dontFragment },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 64, 2)
			p := numbered(9)
			b.expect(passed, wifi, p.frame(), "the first")
			changed(&p)
			b.expect(dropped, lte, p.frame(), "its copy")
		})
	}
	b := newBench(t, 64, 2)
	p := ipv6{label: 3, hops: 64, next: udp, payload: []byte("datagram")}
	b.expect(passed, wifi, p.frame(), "IPv6's first")
	p.hops = 60
	b.expect(dropped, lte, p.frame(), "its copy")
}

func TestPacketsWithDifferentIdentitiesBothPass(t *testing.T) {
	atomic := ipv4{flags: dontFragment, ttl: 64, protocol: udp, payload: slices.Repeat([]byte("x"), 900), source: 1}
	opaque := ipv4{id: 5, ttl: 64, protocol: esp, payload: slices.Repeat([]byte("y"), 901), source: 1}
	last := func(p ipv4) ipv4 {
		p.payload = append(slices.Clone(p.payload[:len(p.payload)-1]), 'z')
		return p
	}
	head := numbered(5)
	head.payload = []byte("0123456789abcdeXghijklmnop")
	for name, two := range map[string][2][]byte{
		"identification":                 {numbered(1).frame(), numbered(2).frame()},
		"source":                         {numbered(1).frame(), func() []byte { p := numbered(1); p.source = 2; return p.frame() }()},
		"protocol":                       {numbered(1).frame(), func() []byte { p := numbered(1); p.protocol = tcp; return p.frame() }()},
		"layer 4's head":                 {numbered(5).frame(), head.frame()},
		"the reserved flag":              {numbered(1).frame(), func() []byte { p := numbered(1); p.flags = 0x8000; return p.frame() }()},
		"the fragment's place":           {ipv4{id: 1, flags: 0x2000, payload: []byte("a")}.frame(), ipv4{id: 1, flags: 0x2001, payload: []byte("a")}.frame()},
		"a fragment's last byte":         {ipv4{id: 1, flags: 0x0010, protocol: udp, payload: atomic.payload}.frame(), ipv4{id: 1, flags: 0x0010, protocol: udp, payload: last(atomic).payload}.frame()},
		"an atomic datagram's last byte": {atomic.frame(), last(atomic).frame()},
		"an opaque one's last byte":      {opaque.frame(), last(opaque).frame()},
		"VLAN":                           {func() []byte { p := numbered(1); p.tags = []uint16{4}; return p.frame() }(), func() []byte { p := numbered(1); p.tags = []uint16{5}; return p.frame() }()},
		"IPv6's flow label":              {ipv6{label: 1, next: udp, payload: []byte("a")}.frame(), ipv6{label: 2, next: udp, payload: []byte("a")}.frame()},
		"IPv6's last byte":               {ipv6{next: tcp, payload: atomic.payload}.frame(), ipv6{next: tcp, payload: last(atomic).payload}.frame()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1024, 2)
			for _, frame := range two {
				b.expect(passed, wifi, frame, "the first of either")
			}
			for _, frame := range two {
				b.expect(dropped, lte, frame, "the copy of either")
			}
		})
	}
}

func TestEachByteOfAPayloadCounts(t *testing.T) {
	b := newBench(t, identities, 2)
	random := rand.New(rand.NewPCG(*seed, 0))
	lengths := []int{1360, 1361, 2020, 2028} // the last one is the longest that the program identifies
	for length := range 150 {
		lengths = append(lengths, length)
	}
	for _, length := range lengths {
		p := ipv4{protocol: esp, payload: drawn(random, length)}
		b.expect(passed, wifi, p.frame(), "the first")
		for at := range p.payload {
			bit := byte(1) << random.IntN(8)
			p.payload[at] ^= bit
			b.expect(passed, lte, p.frame(), fmt.Sprintf("one whose byte %d of %d differs", at, length))
			p.payload[at] ^= bit
		}
		b.expect(dropped, lte, p.frame(), "the copy")
	}
}

// Alterations that a sum of products does not show if it lacks keys, positions or high bits.
func TestAnAlteredPacketIsAnotherPacket(t *testing.T) {
	b := newBench(t, identities, 2)
	random := rand.New(rand.NewPCG(*seed, 0))
	twoWords := func(length int) (one, other int) {
		words := random.Perm(length / 8)
		return 8 * words[0], 8 * words[1]
	}
	for name, alter := range map[string]func(payload []byte) []byte{
		"one bit of two words": func(payload []byte) []byte {
			one, other := twoWords(len(payload))
			at, bit := random.IntN(8), byte(1)<<random.IntN(8)
			payload[one+at] ^= bit
			payload[other+at] ^= bit
			return payload
		},
		"the top bits of a word": func(payload []byte) []byte {
			one, _ := twoWords(len(payload))
			payload[one] ^= 0x80
			payload[one+7] ^= 0x80
			return payload
		},
		"exchanged words": func(payload []byte) []byte {
			one, other := twoWords(len(payload))
			word := slices.Clone(payload[one : one+8])
			copy(payload[one:], payload[other:other+8])
			copy(payload[other:], word)
			return payload
		},
		"a zero byte more": func(payload []byte) []byte { return append(payload, 0) },
		"a byte less":      func(payload []byte) []byte { return payload[:len(payload)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			for range 10 * *trials {
				payload := drawn(random, 16+random.IntN([]int{64, 1400}[random.IntN(2)]))
				if one, _ := twoWords(len(payload)); random.IntN(2) == 0 { // one word between zeros
					clear(payload[:one])
					clear(payload[one+8:])
				}
				sound := ipv6{next: udp, payload: payload}.frame()
				altered := ipv6{next: udp, payload: alter(slices.Clone(payload))}.frame()
				if bytes.Equal(altered, sound) { // exchanged zeros
					continue
				}
				b.expect(passed, wifi, altered, "the altered one")
				b.expect(passed, lte, sound, "the sound one")
				b.expect(dropped, lte, altered, "the altered one's copy")
				b.expect(dropped, wifi, sound, "the sound one's copy")
			}
		})
	}
}

func drawn(random *rand.Rand, length int) []byte {
	payload := make([]byte, length)
	for at := range payload {
		payload[at] = byte(random.Uint32())
	}
	return payload
}

func TestPacketsOfDifferentKindsNeverMatch(t *testing.T) {
	// The words that the program hashes are equal, in another structure: a tag, or a part of the addresses.
	tagged := ipv4{source: 1, protocol: esp, payload: slices.Repeat([]byte("x"), 16)}
	bare := mended(ipv4{protocol: esp, payload: slices.Repeat([]byte("x"), 24)}.frame(), func(packet []byte) {
		copy(packet[12:], []byte{0, 0, 0, 0, 0, 7, 0, 0})
	})
	tagged.tags = []uint16{7}
	b := newBench(t, 64, 2)
	b.expect(passed, wifi, tagged.frame(), "the one with a tag")
	b.expect(passed, lte, bare, "the other without")
}

func TestARepeatedPacketIsNewAfterTheWindow(t *testing.T) {
	b := newBench(t, 64, 2)
	same := ipv6{next: udp, payload: []byte("keepalive")}.frame()
	b.expect(passed, wifi, same, "the first")
	b.expect(dropped, lte, same, "its copy")
	b.while(2 * time.Minute)
	b.expect(passed, lte, same, "the next, which the other path brings first")
	b.expect(dropped, wifi, same, "its copy")
	if c := b.counters(); c[lte].Late != 0 || c[lte].First != 1 {
		t.Errorf("%+v: expected that nothing is late, or the window would grow for it", c[:2])
	}
}

func TestCompleteEntriesAreEvictedFirst(t *testing.T) {
	b := newBench(t, ways, 2)
	b.expect(passed, wifi, numbered(0).frame(), "one whose copy is late")
	for id := uint16(1); id <= 100; id++ {
		b.expect(passed, wifi, numbered(id).frame(), "the first")
		b.expect(dropped, lte, numbered(id).frame(), "its copy")
	}
	b.expect(dropped, lte, numbered(0).frame(), "the copy that was late")
	if evicted := b.evicted(); evicted != 0 {
		t.Errorf("%d evicted", evicted)
	}
}

func TestTheRoomInUseGrowsAfterEvictions(t *testing.T) {
	b := newBench(t, 4*ways, 2)
	b.e.settings.BucketsMask = 0
	b.renew(time.Minute, time.Minute)
	number := uint64(0)
	volley := func() {
		for range 100 {
			b.expect(passed, wifi, sent(0, number)(64), "the first")
			number++
		}
	}
	for _, mask := range []uint32{0, 1, 3, 3} {
		if b.e.settings.BucketsMask != mask {
			t.Fatalf("mask %d, expected %d", b.e.settings.BucketsMask, mask)
		}
		volley()
		b.e.Grow([MaxPaths]Counters(b.counters()))
		b.renew(time.Minute, time.Minute)
	}
	b.expect(dropped, lte, sent(0, number-1)(64), "the copy of the last")
	b.e.settings.BucketsMask = 0
	b.e.Grow([MaxPaths]Counters(b.counters()))
	if mask := b.e.settings.BucketsMask; mask != 0 {
		t.Errorf("mask %d: expected that it does not grow where nothing was forgotten", mask)
	}
}

// The same packets on two processors at once: the first to read the clock is not always the first at the table.
func TestOneCopyPassesOfTwoOnDifferentProcessors(t *testing.T) {
	const packets = 20_000
	b := newBench(t, identities, 2)
	var verdicts [2][packets]uint32
	var ready [2]atomic.Int64
	var both sync.WaitGroup
	for path := range 2 {
		both.Add(1)
		go func() {
			defer both.Done()
			err := b.host.Try(func() error {
				for n := range packets {
					ready[path].Add(1)
					for ready[1-path].Load() <= int64(n) {
						runtime.Gosched()
					}
					var err error
					if verdicts[path][n], err = b.show(path, sent(0, uint64(n))(64)); err != nil {
						ready[path].Add(packets)
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	both.Wait()
	for n := range packets {
		if verdicts[wifi][n]+verdicts[lte][n] != passed+dropped {
			t.Fatalf("packet %d: verdicts %d and %d, expected that one passes", n, verdicts[wifi][n], verdicts[lte][n])
		}
	}
}

func TestUnidentifiedPacketsAlwaysPass(t *testing.T) {
	long := numbered(1)
	long.payload, long.protocol = make([]byte, 3000), esp
	lying := mended(numbered(1).frame(), func(packet []byte) { binary.BigEndian.PutUint16(packet[2:], 2000) })
	headless := mended(numbered(1).frame(), func(packet []byte) { packet[0] = 0x44 }) // a header of 16 bytes
	broken := numbered(1).frame()
	broken[14+8]++ // its TTL, and the checksum as before
	jumbo := ipv6{next: 0, payload: []byte{tcp, 0, 0xc2, 4, 0, 1, 0, 0}}.frame()
	binary.BigEndian.PutUint16(jumbo[14+4:], 0)
	short := numbered(1).frame()[:30]
	optional := numbered(1)
	optional.options = []byte{0, 0, 0, 0} // the checksum does not change
	for name, frame := range map[string][]byte{
		"one that is longer than is looked at":  long.frame(),
		"one that says it is longer than it is": lying, "half a header": short, "a header too short": headless,
		"a header that does not add up": broken, "a jumbogram": jumbo, "one with options": optional.frame(),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1024, 2)
			b.expectAllPass(frame, name)
			if c := b.counters(); c[wifi].Unidentified != 2 || c[lte].Unidentified != 2 {
				t.Errorf("%+v", c[:2])
			}
		})
	}
}

func TestUnforwardedPacketsAlwaysPass(t *testing.T) {
	to := func(first byte) []byte {
		frame := numbered(1).frame()
		frame[0] = first
		return frame
	}
	late := func(hops uint8) ipv4 {
		p := numbered(1)
		p.ttl = hops
		return p
	}
	for name, frame := range map[string][]byte{
		"ARP": ethernet(nil, 0x0806, make([]byte, 28)), "a group's": to(own.Bytes[0] | 1), "another port's": to(own.Bytes[0] | 4),
		"three tags":           func() []byte { p := numbered(1); p.tags = []uint16{1, 2, 3}; return p.frame() }(),
		"a TTL that ends here": late(1).frame(), "a TTL that ends at the next router": late(2).frame(),
		"a hop limit that ends here":            ipv6{hops: 1, next: udp, payload: []byte("a")}.frame(),
		"a hop limit that ends at the next one": ipv6{hops: 2, next: udp, payload: []byte("a")}.frame(),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1024, 2)
			b.expectAllPass(frame, name)
			if c := b.counters(); c[wifi].NotForwarded != 2 || c[lte].NotForwarded != 2 {
				t.Errorf("%+v", c[:2])
			}
		})
	}
}

func TestAnUnforwardedPacketNeverDisplacesASoundCopy(t *testing.T) {
	sound4, sound6 := numbered(1), ipv6{hops: 3, next: udp, payload: []byte("datagram")}
	sound4.ttl = 3
	ends4, ends6 := sound4, sound6
	ends4.ttl, ends6.hops = 2, 2
	foreign := sound4.frame()
	foreign[5]++
	for name, two := range map[string][2][]byte{
		"a TTL that ends": {ends4.frame(), sound4.frame()}, "a hop limit that ends": {ends6.frame(), sound6.frame()},
		"another port's MAC address": {foreign, sound4.frame()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 64, 2)
			b.expect(passed, wifi, two[0], "what goes no further")
			b.expect(passed, lte, two[1], "the sound one")
			b.expect(passed, wifi, two[0], "what goes no further, again")
			b.expect(dropped, wifi, two[1], "the sound one's copy")
		})
	}
}

// A flooding switch sends packets to one port that are addressed to another.
func TestEachPathAcceptsOnlyItsPortsMAC(t *testing.T) {
	b := newBench(t, 64, 2)
	other := mac{Bytes: [6]byte{2, 0, 0, 0, 0, 2}}
	if err := b.e.at(b.at[lte], lte, other); err != nil {
		t.Fatal(err)
	}
	for id := range uint16(2) {
		toWifi, toLTE := numbered(id).frame(), numbered(id).frame()
		copy(toLTE, other.Bytes[:])
		b.expect(passed, wifi, toLTE, "what was flooded")
		b.expect(passed, lte, toWifi, "what was flooded")
		if id == 0 {
			b.expect(passed, lte, toLTE, "the first")
			b.expect(dropped, wifi, toWifi, "its copy")
		} else {
			b.expect(passed, wifi, toWifi, "the first")
			b.expect(dropped, lte, toLTE, "its copy")
		}
	}
}

func TestAFullBucketEvictsTheOldestOnly(t *testing.T) {
	b := newBench(t, ways, 2) // one bucket
	for id := range uint16(ways + 1) {
		b.expect(passed, wifi, numbered(id).frame(), "the first")
	}
	for id := uint16(1); id <= ways; id++ {
		b.expect(dropped, lte, numbered(id).frame(), "the copy of one that there was room for")
	}
	if evicted := b.counters()[wifi].Evicted; evicted != 1 {
		t.Errorf("%d evicted, expected 1", evicted)
	}
	b.expect(passed, lte, numbered(0).frame(), "the copy of the one that was forgotten")
}
