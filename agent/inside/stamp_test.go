package inside

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

func numbered() ipv4 {
	return ipv4{protocol: udp, flags: dontFragment, payload: []byte("0123456789abcdefghijklmnop")}
}

func TestEqualAtomicDatagramsBecomeTwoPackets(t *testing.T) {
	b := newBench(t, port{Number: 1})
	frame := numbered().frame()
	seen := map[uint16]bool{}
	for range 70_000 { // the numbers begin anew in it
		out := b.passes(frame)
		id := binary.BigEndian.Uint16(out[18:])
		if id == 0 || sum(out[14:34]) != 0xffff {
			t.Fatalf("identification %d, sum over the header %#x: expected a number, and 0xffff", id, sum(out[14:34]))
		}
		if len(seen) < 65_535 && seen[id] {
			t.Fatalf("%d came again after %d", id, len(seen))
		}
		seen[id] = true
		copy(out[18:], []byte{0, 0})
		if copy(out[24:26], frame[24:26]); !bytes.Equal(out, frame) {
			t.Fatal("more than the identification and the checksum was changed")
		}
	}
	if len(seen) != 65_535 {
		t.Errorf("%d numbers, expected 65535", len(seen))
	}
}

func TestWhatHasAnIdentityOrMayGetNonePassesAsItIs(t *testing.T) {
	b := newBench(t, port{Number: 1})
	free, fragment, tail, signed := numbered(), numbered(), numbered(), numbered()
	free.flags, fragment.flags, tail.flags, signed.protocol = 0, dontFragment|0x2000, dontFragment|0x0010, ah
	for name, frame := range map[string][]byte{
		"one that AH has signed": signed.frame(), "one that may be fragmented": free.frame(), "the first of several fragments": fragment.frame(),
		"a later one": tail.frame(), "IPv6": ipv6{next: udp, payload: []byte("a")}.frame(),
		"ARP": ethernet(0x0806, make([]byte, 28)), "half a header": numbered().frame()[:30],
	} {
		t.Run(name, func(t *testing.T) {
			if out := b.passes(frame); !bytes.Equal(out, frame) {
				t.Errorf("%x became %x", frame, out)
			}
		})
	}
}

func TestWhereNothingIsWantedEverythingPassesAsItIs(t *testing.T) {
	b := newBench(t, port{})
	for _, frame := range [][]byte{numbered().frame(), ipv4{protocol: udp, payload: make([]byte, 2000)}.frame()} {
		if out := b.passes(frame); !bytes.Equal(out, frame) {
			t.Errorf("%x became %x", frame, out)
		}
	}
}

// Any frame: only the number of an atomic datagram changes, and its checksum with it.
func FuzzOnlyAtomicDatagramsAreNumbered(f *testing.F) {
	f.Add(numbered().frame())
	f.Add(ipv6{next: udp, payload: []byte("a")}.frame())
	b := newBench(f, port{Number: 1})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 14 || len(frame) > longestShown {
			return
		}
		b.t = t
		out := b.passes(frame)
		packet := frame[14:]
		if len(packet) < 20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || packet[0]>>4 != 4 || packet[0]&0x0f < 5 ||
			binary.BigEndian.Uint16(packet[6:])&0x7fff != dontFragment || packet[9] == ah {
			if !bytes.Equal(out, frame) {
				t.Fatalf("%x became %x", frame, out)
			}
			return
		}
		if binary.BigEndian.Uint16(out[18:]) == 0 {
			t.Fatalf("%x got no number", frame)
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
