// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

var timestamp = []byte{1, 1, 8, 10}

func numbered() ipv4 {
	return ipv4{protocol: udp, flags: dontFragment, payload: []byte("0123456789abcdefghijklmnop")}
}

// between is a datagram between addresses that differ in their last byte.
func between(from, to byte) []byte {
	p := numbered()
	p.from, p.to = [4]byte{10, 0, 0, from}, [4]byte{10, 9, 9, to}
	return p.frame()
}

func stamped(payload []byte, at uint32) ipv4 {
	options := binary.BigEndian.AppendUint32(slices.Clone(timestamp), at)
	return ipv4{protocol: tcp, flags: dontFragment, payload: segment(ack, append(options, 0, 0, 0, 0), payload, make([]byte, 8))}
}

// numbers is a second implementation of the identifications: a keyed permutation of a counter for each pair of addresses.
type numbers struct {
	key     [2]uint64
	counter map[uint64]uint64
}

const (
	slots = 4096
	most  = 65_535
)

func (n *numbers) next(frame []byte) uint16 {
	key := hash(n.key, uint64(binary.NativeEndian.Uint32(frame[26:]))<<32|uint64(binary.NativeEndian.Uint32(frame[30:])))
	slot := key[0] % slots
	drawn := n.counter[slot] % most
	n.counter[slot]++
	if id := feistel(uint16(drawn), key); id != 0 {
		return id
	}
	return feistel(most, key)
}

// hash is SipHash-1-3 of one word with 128 bits of output, without the length.
func hash(key [2]uint64, word uint64) [2]uint64 {
	v := [4]uint64{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	round := func() {
		v[0] += v[1]
		v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
		v[0] = bits.RotateLeft64(v[0], 32)
		v[2] += v[3]
		v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
		v[0] += v[3]
		v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
		v[2] += v[1]
		v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
		v[2] = bits.RotateLeft64(v[2], 32)
	}
	v[3] ^= word
	round()
	v[0] ^= word
	var out [2]uint64
	v[2] ^= 0xee
	for half := range out {
		for range 3 {
			round()
		}
		out[half] = v[0] ^ v[1] ^ v[2] ^ v[3]
		v[1] ^= 0xdd
	}
	return out
}

func feistel(number uint16, key [2]uint64) uint16 {
	keys := [4]uint32{uint32(key[0]), uint32(key[0] >> 32), uint32(key[1]), uint32(key[1] >> 32)}
	left, right := byte(number>>8), byte(number)
	for round := range uint32(6) {
		mixed := (uint32(right) ^ (keys[round%4] + round)) * 0x85ebca6b
		mixed = (mixed ^ mixed>>13) * 0xc2b2ae35
		left, right = right, left^byte(mixed>>24)
	}
	return uint16(left)<<8 | uint16(right)
}

// getsNumber reports whether the rule numbers a frame.
func getsNumber(frame []byte) bool {
	packet := frame[14:]
	if len(packet) < 20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || packet[0] != 0x45 || packet[9] == ah ||
		binary.BigEndian.Uint16(packet[6:])&0x7fff != dontFragment {
		return false
	}
	if packet[9] != tcp {
		return true
	}
	header := 0
	if len(packet) >= 20+32 && bytes.Equal(packet[40:44], timestamp) {
		header = int(packet[32]>>4) * 4
	}
	withTime := header >= 32 && int(binary.BigEndian.Uint16(packet[2:])) > 20+header
	return binary.BigEndian.Uint16(packet[4:]) == 0 && !withTime
}

func numberOf(frame []byte) uint16 { return binary.BigEndian.Uint16(frame[18:]) }

func TestEqualAtomicDatagramsGetDifferentNumbers(t *testing.T) {
	b := newBench(t, port{Number: 1})
	frame, expected := numbered().frame(), newNumbers(b.key)
	seen := map[uint16]bool{}
	for range 70_000 { // the counter wraps in this range
		out := b.passes(frame)
		id := numberOf(out)
		if id == 0 || sum(out[14:34]) != 0xffff {
			t.Fatalf("identification %d, sum over the header %#x: expected a number, and 0xffff", id, sum(out[14:34]))
		}
		if len(seen) < most && seen[id] {
			t.Fatalf("%d came again after %d", id, len(seen))
		}
		if rule := expected.next(frame); rule != id {
			t.Fatalf("number %d, expected %d", id, rule)
		}
		seen[id] = true
		copy(out[18:], []byte{0, 0})
		if copy(out[24:26], frame[24:26]); !bytes.Equal(out, frame) {
			t.Fatal("more than the identification and the checksum was changed")
		}
	}
	if len(seen) != most {
		t.Errorf("%d numbers, expected %d", len(seen), most)
	}
}

// The identifications of one destination are independent of traffic to others, and the next one is not predictable: all 200
// differences are equally likely.
func TestNumbersDoNotRevealOtherTraffic(t *testing.T) {
	b := newBench(t, port{Number: 1})
	expected := newNumbers(b.key)
	steps, before := map[uint16]int{}, uint16(0)
	for range 200 {
		for to := range byte(5) {
			frame := between(1, to)
			id := numberOf(b.passes(frame))
			if rule := expected.next(frame); id != rule {
				t.Fatalf("to %d: number %d, expected %d", to, id, rule)
			}
			if to == 0 {
				steps[id-before]++
				before = id
			}
		}
	}
	for step, times := range steps {
		if times > 10 {
			t.Errorf("%d times of 200 the next number is %d more: it can be guessed", times, step)
		}
	}
	other := newBench(t, port{Number: 1})
	if frame := between(1, 0); other.key == b.key || slices.Equal(other.some(frame, 8), newNumbers(b.key).some(frame, 8)) {
		t.Error("the next agent gives the same numbers")
	}
}

func newNumbers(key [2]uint64) *numbers { return &numbers{key, map[uint64]uint64{}} }

func (n *numbers) some(frame []byte, count int) (ids []uint16) {
	for range count {
		ids = append(ids, n.next(frame))
	}
	return ids
}

func (b *bench) some(frame []byte, count int) (ids []uint16) {
	b.t.Helper()
	for range count {
		ids = append(ids, numberOf(b.passes(frame)))
	}
	return ids
}

func TestOtherPacketsAreNotNumbered(t *testing.T) {
	b := newBench(t, port{Number: 1})
	free, fragment, tail, signed, optional := numbered(), numbered(), numbered(), numbered(), numbered()
	free.flags, fragment.flags, tail.flags, signed.protocol = 0, dontFragment|0x2000, dontFragment|0x0010, ah
	optional.options = []byte{1, 1, 1, 0}
	own := stamped(nil, 1)
	own.id = 7
	for name, frame := range map[string][]byte{
		"one that AH has signed": signed.frame(), "one that may be fragmented": free.frame(), "the first of several fragments": fragment.frame(),
		"a later one": tail.frame(), "IPv6": ipv6{next: udp, payload: []byte("a")}.frame(), "one with options": optional.frame(),
		"ARP": ethernet(0x0806, make([]byte, 28)), "half a header": numbered().frame()[:30],
		"TCP that its sender has numbered": own.frame(), "TCP with data and a time stamp": stamped([]byte("data"), 1).frame(),
	} {
		t.Run(name, func(t *testing.T) {
			if out := b.passes(frame); !bytes.Equal(out, frame) {
				t.Errorf("%x became %x", frame, out)
			}
		})
	}
}

func TestTCPWithoutTimestampsIsNumbered(t *testing.T) {
	b := newBench(t, port{Number: 1})
	plain := func(options, data []byte) []byte {
		return ipv4{protocol: tcp, flags: dontFragment, payload: segment(ack, options, data, make([]byte, 8))}.frame()
	}
	for name, frame := range map[string][]byte{
		"an acknowledgement":                   stamped(nil, 1).frame(),
		"an acknowledgement without an option": plain(nil, nil),
		"data without a time stamp":            plain(nil, []byte("data")),
		"data behind another option":           plain([]byte{1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2}, []byte("data")),
		"half a time stamp":                    plain(timestamp, []byte("12345678")),
	} {
		t.Run(name, func(t *testing.T) {
			if one, other := b.passes(frame), b.passes(frame); bytes.Equal(one, other) || numberOf(one) == 0 {
				t.Errorf("%x became %x and %x, expected two packets", frame, one, other)
			}
		})
	}
}

// Packets of common systems: no two leave with equal fields that elimination compares.
func TestPacketsOfTerminalsAreDistinct(t *testing.T) {
	b := newBench(t, port{Number: 1})
	random := rand.New(rand.NewPCG(3, 4))
	datagram := []byte("0123456789abcdefghijklmnop")
	number, milliseconds := uint16(0), uint32(0)
	sends := []func(n uint32) ipv4{
		func(uint32) ipv4 { return ipv4{protocol: udp, flags: dontFragment, payload: datagram} },
		func(uint32) ipv4 { return ipv4{id: 1, protocol: udp, flags: dontFragment, payload: datagram} }, // one identification for all
		func(uint32) ipv4 { // Linux and Windows: TCP with identifications
			p := stamped(datagram, milliseconds)
			number++
			p.id = number
			return p
		},
		func(n uint32) ipv4 { // Apple: TCP without identifications, and no retransmission within a millisecond
			return stamped(binary.BigEndian.AppendUint32(nil, n), milliseconds)
		},
		func(uint32) ipv4 { return stamped(nil, milliseconds) },
		func(uint32) ipv4 { // without identifications and timestamps
			return ipv4{protocol: tcp, flags: dontFragment, payload: segment(ack, nil, datagram, make([]byte, 8))}
		},
	}
	seen := map[string]uint32{}
	for n := range uint32(60_000) {
		if n%10 == 0 {
			milliseconds++
		}
		p := sends[random.IntN(len(sends))](n)
		p.from, p.to = [4]byte{10, 0, 0, byte(1 + random.IntN(2))}, [4]byte{10, 9, 9, byte(1 + random.IntN(3))}
		out := b.passes(p.frame())
		out[24], out[25] = 0, 0 // header checksum
		if before, again := seen[string(out)]; again {
			t.Fatalf("packet %d is equal to packet %d: %x", n, before, out)
		}
		seen[string(out)] = n
	}
}

func TestPacketsAreUnchangedWithoutOrders(t *testing.T) {
	b := newBench(t, port{})
	for _, frame := range [][]byte{numbered().frame(), ipv4{protocol: udp, payload: make([]byte, 2000)}.frame()} {
		if out := b.passes(frame); !bytes.Equal(out, frame) {
			t.Errorf("%x became %x", frame, out)
		}
	}
}

// Only the identification of an atomic datagram changes, and its checksum.
func FuzzOnlyAtomicDatagramsAreNumbered(f *testing.F) {
	own := stamped(nil, 1)
	own.id = 7
	for _, frame := range [][]byte{
		numbered().frame(), ipv6{next: udp, payload: []byte("a")}.frame(), own.frame(), stamped(nil, 1).frame(),
		stamped([]byte("data"), 1).frame(), stamped([]byte("data"), 1).frame()[:14+20+31],
	} {
		f.Add(frame)
	}
	b := newBench(f, port{Number: 1})
	expected := newNumbers(b.key)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 14 || len(frame) > longestShown {
			return
		}
		b.t = t
		out := b.passes(frame)
		if !getsNumber(frame) {
			if !bytes.Equal(out, frame) {
				t.Fatalf("%x became %x", frame, out)
			}
			return
		}
		if id := expected.next(frame); numberOf(out) != id {
			t.Fatalf("%x became %x, expected the number %d", frame, out, id)
		}
		if before, after := sum(frame[14:34]), sum(out[14:34]); before%0xffff != after%0xffff {
			t.Fatalf("%x added up to %#x, and %x to %#x", frame, before, out, after)
		}
		same := slices.Clone(frame)
		copy(same[18:20], out[18:20])
		copy(same[24:26], out[24:26])
		if !bytes.Equal(out, same) {
			t.Fatalf("of %x more was changed than the number and the checksum", frame)
		}
	})
}
