// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

const most = 10 // segments

var usual = join(mss(1460), scale(7))

func up(bytes, scale int) int { return (bytes + 1<<scale - 1) >> scale }

// ackOf acknowledges the terminal's first bytes.
func ackOf(bytes int, window uint16) segment {
	return segment{seq: 5001, ack: uint32(1001 + bytes), flags: ack, window: window}
}

// sends lets the terminal send up to this many bytes since the connection's start.
func (b *bench) sends(upTo int) {
	b.from(segment{seq: uint32(1001 + upTo - 100), ack: 5001, flags: ack, payload: 100})
}

func TestLowerChangesWindowAndChecksumOnly(t *testing.T) {
	for name, c := range map[string]struct {
		six     bool
		beneath []byte
		payload int
	}{"IPv4": {}, "IPv4 with options": {beneath: []byte{148, 4, 0, 0}}, "IPv6": {six: true}, "with data": {payload: 999}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.six = c.six
			b.cap(most)
			b.handshake(usual, usual)
			s := ackOf(0, 4000)
			s.beneath, s.payload = c.beneath, c.payload
			s.from, s.fromPort, s.intoPort = terminal4, otherPort, terminalPort
			s.into, s.from = b.addresses()
			before := s.frame()
			after := b.sent(before)
			if window := b.window(after); window != up(most*1460, 7) {
				t.Fatalf("a window of %d, expected %d", window, up(most*1460, 7))
			}
			at := len(before) - len(tcpAnd(before))
			copy(before[at+14:], after[at+14:at+18]) // window and checksum
			if !bytes.Equal(before, after) {
				t.Fatalf("%x, expected no other change: %x", after, before)
			}
		})
	}
}

// tcpAnd returns the TCP header and everything behind it.
func tcpAnd(frame []byte) []byte {
	if frame[14]>>4 == 4 {
		return frame[14+int(frame[14]&15)*4:]
	}
	return frame[54:]
}

func TestLowerUsesTheConnectionsWindowScale(t *testing.T) {
	stamped := join(mss(1460), stamps(1, 0), scale(7))
	for name, c := range map[string]struct {
		terminal, other []byte
		segments        uint32
		window          int
	}{
		"both scale":                    {usual, join(mss(1460), scale(10)), most, up(most*1460, 10)},
		"the terminal does not scale":   {mss(1460), usual, most, most * 1460},
		"the other does not scale":      {usual, mss(1460), most, most * 1460},
		"the smaller segment counts":    {join(mss(1400), scale(7)), usual, most, up(most*1400, 7)},
		"timestamps take their part":    {stamped, stamped, most, up(most*1448, 7)},
		"no segment size is said":       {scale(7), scale(7), most, up(most*536, 7)},
		"an absurd scale":               {usual, join(mss(1460), scale(99)), 40, up(40*1460, 14)},
		"an absurd segment":             {join(mss(1), scale(0)), usual, 1, 1},
		"never less than a segment":     {usual, join(mss(1460), scale(11)), 1, 1},
		"4 segments are 11 at scale 14": {usual, join(mss(1460), scale(14)), 4, 1},
		"options in another order":      {join(scale(2), none, mss(1460)), join([]byte{4, 2}, scale(7), none, none, mss(1460)), most, up(most*1460, 7)},
		"behind an end there is none":   {usual, join(mss(1460), []byte{0}, scale(7)), most, most * 1460},
		"an option without a length":    {usual, join(mss(1460), []byte{77, 0}, scale(7)), most, most * 1460},
		"an option beyond the header":   {usual, join(mss(1460), []byte{77, 40}, scale(7)), most, most * 1460},
		"a scale of a wrong length":     {usual, join(mss(1460), []byte{3, 4, 7, 7}), most, most * 1460},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cap(c.segments)
			b.handshake(c.terminal, c.other)
			b.change(func(f *flow) { f.HasEdge = 0 })
			if window := b.window(b.to(ackOf(0, 65535))); window != c.window {
				t.Fatalf("a window of %d, expected %d", window, c.window)
			}
		})
	}
}

func TestLowerHandlesTheUnscaledFirstWindow(t *testing.T) {
	b := newBench(t)
	b.cap(most)
	if window := b.window(b.handshake(usual, usual)); window != most*1460 {
		t.Fatalf("a window of %d, expected %d", window, most*1460)
	}
}

func TestLowerNeverRaisesAWindow(t *testing.T) {
	b := newBench(t)
	b.cap(most)
	b.handshake(usual, usual)
	for _, window := range []int{0, 1, up(most*1460, 7) - 1, up(most*1460, 7)} {
		if got := b.window(b.to(ackOf(0, uint16(window)))); got != window {
			t.Fatalf("a window of %d, expected %d", got, window)
		}
	}
}

func TestConnectionsWithoutASeenHandshakeAreUnchanged(t *testing.T) {
	for name, begin := range map[string]func(b *bench){
		"nothing":   func(b *bench) {},
		"data":      func(b *bench) { b.sends(100) },
		"a SYN":     func(b *bench) { b.from(segment{seq: 1000, flags: syn, options: usual}); b.sends(100) },
		"a SYN-ACK": func(b *bench) { b.to(segment{ack: 1001, flags: syn | ack, options: usual}); b.sends(100) },
		"an answer to others": func(b *bench) {
			b.from(segment{seq: 999, flags: syn, options: usual})
			b.to(segment{ack: 1001, flags: syn | ack, options: usual})
		},
		"their own answer": func(b *bench) {
			b.from(segment{seq: 1000, flags: syn, options: usual})
			b.from(segment{ack: 1001, flags: syn | ack, options: usual})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cap(1)
			begin(b)
			if window := b.window(b.to(ackOf(0, 4000))); window != 4000 {
				t.Fatalf("a window of %d, expected 4000", window)
			}
		})
	}
}

func TestPacketsOfATerminalCannotEvadeItsCap(t *testing.T) {
	for name, s := range map[string]segment{
		"another SYN": {seq: 99, flags: syn, options: mss(1460)}, "a reset": {seq: 1, flags: rst}, "an end": {seq: 1001, ack: 5001, flags: fin | ack},
		"another SYN-ACK": {seq: 7, ack: 9, flags: syn | ack},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cap(most)
			b.handshake(usual, usual)
			b.from(s)
			if window := b.window(b.to(ackOf(0, 4000))); window != up(most*1460, 7) {
				t.Fatalf("a window of %d, expected %d", window, up(most*1460, 7))
			}
		})
	}
}

func TestConnectionsToTheTerminalAreCapped(t *testing.T) {
	b := newBench(t)
	b.cap(most)
	b.to(segment{seq: 5000, flags: syn, options: join(mss(1460), scale(9))})
	b.from(segment{seq: 1000, ack: 5001, flags: syn | ack, options: join(mss(1400), scale(3))})
	b.change(func(f *flow) { f.HasEdge = 0 })
	if window := b.window(b.to(ackOf(0, 4000))); window != up(most*1400, 9) {
		t.Fatalf("a window of %d, expected %d", window, up(most*1400, 9))
	}
}

func TestConnectionsWithDataInTheSYNAreCapped(t *testing.T) {
	for taken, counts := range map[int]bool{0: true, 200: true, 500: true, 501: false, -1: false} {
		b := newBench(t)
		b.cap(most)
		b.from(segment{seq: 1000, flags: syn, options: usual, payload: 500})
		b.from(segment{seq: 1000, flags: syn, options: usual}) // again without the option
		b.to(segment{seq: 5000, ack: uint32(1001 + taken), flags: syn | ack, window: 65160, options: usual})
		if !counts {
			if window := b.window(b.to(ackOf(500, 4000))); window != 4000 {
				t.Errorf("an answer to %d bytes more than the first segment: a window of %d, expected 4000", taken, window)
			}
			continue
		}
		if window := b.window(b.to(ackOf(500, 4000))); window != up(most*1460, 7) {
			t.Errorf("of 500 bytes %d are taken at first: a window of %d, expected %d", taken, window, up(most*1460, 7))
		}
		if passing := b.passes(); passing.BytesSent != 500 || !passing.HasScale {
			t.Errorf("of 500 bytes %d are taken at first: %v, expected 500 to be acknowledged", taken, passing)
		}
	}
}

func TestUnusualPacketsAreUnchanged(t *testing.T) {
	b := newBench(t)
	b.cap(1)
	b.handshake(usual, usual)
	plain := func(change func([]byte)) []byte {
		s := ackOf(0, 4000)
		s.from, s.fromPort, s.into, s.intoPort = other4, otherPort, terminal4, terminalPort
		s.options = stamps(1, 2)
		frame := s.frame()
		change(frame)
		return frame
	}
	for name, frame := range map[string][]byte{
		"a fragment":          plain(func(f []byte) { f[20] = 0x20 }),
		"a later fragment":    plain(func(f []byte) { f[21] = 8 }),
		"another protocol":    plain(func(f []byte) { f[23] = 17 }),
		"another version":     plain(func(f []byte) { f[14] = 0x55 }),
		"a header too short":  plain(func(f []byte) { f[14] = 0x44 }),
		"a header too long":   plain(func(f []byte) { f[14] = 0x4f }),
		"longer than it is":   plain(func(f []byte) { binary.BigEndian.PutUint16(f[16:], 900) }),
		"shorter than TCP":    plain(func(f []byte) { binary.BigEndian.PutUint16(f[16:], 39) }),
		"no offset":           plain(func(f []byte) { f[46] = 0x40 }),
		"an offset too large": plain(func(f []byte) { f[46] = 0xf0 }),
		"a reset":             plain(func(f []byte) { f[47] = rst | ack }),
		"no acknowledgement":  plain(func(f []byte) { f[47] = 0 }),
		"tagged":              slices.Concat(plain(func([]byte) {})[:12], []byte{0x81, 0, 0, 5}, plain(func([]byte) {})[12:]),
		"no IP":               plain(func(f []byte) { f[12] = 9 }),
	} {
		if out := b.sent(frame); !bytes.Equal(out, frame) {
			t.Errorf("%s: %x, expected %x", name, out, frame)
		}
	}
	if window := b.window(b.sent(plain(func([]byte) {}))); window == 4000 {
		t.Error("what is plain is not lowered")
	}
}

func TestIPv6ExtensionHeadersAreUnchanged(t *testing.T) {
	b := newBench(t)
	b.six = true
	b.cap(1)
	b.handshake(usual, usual)
	s := ackOf(0, 4000)
	s.from, s.fromPort, s.into, s.intoPort = other6, otherPort, terminal6, terminalPort
	frame := s.frame()
	extended := slices.Concat(frame[:54], []byte{6, 0, 1, 4, 0, 0, 0, 0}, frame[54:])
	extended[20] = 60
	binary.BigEndian.PutUint16(extended[18:], 28)
	if out := b.sent(extended); !bytes.Equal(out, extended) {
		t.Fatalf("%x, expected %x", out, extended)
	}
	if window := b.window(b.sent(frame)); window == 4000 {
		t.Fatal("what is plain is not lowered")
	}
}

// The program only ever lowers the TCP window. It keeps the checksum valid.
func TestRandomFramesOnlyLoseWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	b := newBench(t)
	b.cap(1)
	b.handshake(usual, usual)
	lowered := 0
	for range 20_000 {
		s := ackOf(0, uint16(random.Uint32()))
		s.from, s.fromPort, s.into, s.intoPort = other4, otherPort, terminal4, terminalPort
		s.options = make([]byte, random.IntN(41))
		for i := range s.options {
			s.options[i] = byte(random.Uint32N(12))
		}
		frame := s.frame()
		for range random.IntN(3) {
			frame[random.IntN(len(frame))] ^= byte(1 << random.IntN(8))
		}
		frame = frame[:54+random.IntN(len(frame)-53)] // BPF_PROG_TEST_RUN needs at least this much of IPv6
		out := b.sent(frame)
		if bytes.Equal(out, frame) {
			continue
		}
		lowered++
		at := 14 + int(frame[14]&15)*4
		before, after := slices.Clone(frame), slices.Clone(out)
		if binary.BigEndian.Uint16(after[at+14:]) >= binary.BigEndian.Uint16(before[at+14:]) {
			t.Fatalf("%x came out as %x", frame, out)
		}
		if a, b := sum(before[at:]), sum(after[at:]); a%0xffff != b%0xffff {
			t.Fatalf("%x came out as %x: it adds up to %x and %x", frame, out, a, b)
		}
		copy(after[at+14:at+18], before[at+14:])
		if !bytes.Equal(before, after) {
			t.Fatalf("%x came out as %x", frame, out)
		}
	}
	if lowered < 1000 {
		t.Fatalf("%d were lowered", lowered)
	}
}

func TestCapAppliesToItsPairOnly(t *testing.T) {
	b := newBench(t)
	b.must(b.hold(map[pair]uint32{{terminal4.As16(), terminal4.As16()}: 1, {other4.As16(), terminal4.As16()}: 1}, hour))
	b.handshake(usual, usual)
	if window := b.window(b.to(ackOf(0, 4000))); window != 4000 {
		t.Fatalf("a window of %d, expected 4000", window)
	}
}
