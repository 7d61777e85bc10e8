package eliminate

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func newStamper(t *testing.T) *Stamper {
	t.Helper()
	s, err := LoadStamper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Stamper) stamped(t *testing.T, frame []byte) []byte {
	t.Helper()
	verdict, out, err := s.objects.Program.Test(frame)
	if err != nil || verdict != passed {
		t.Fatalf("verdict %d, %v: expected that it passes", verdict, err)
	}
	return out
}

// sum is the Internet checksum over a header: 0 where the one inside it is right.
func sum(header []byte) uint16 {
	var total uint32
	for at := 0; at < len(header); at += 2 {
		total += uint32(binary.BigEndian.Uint16(header[at:]))
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}

func TestEqualAtomicDatagramsBecomeTwoPackets(t *testing.T) {
	s := newStamper(t)
	p := numbered(0)
	p.flags = dontFragment
	seen := map[uint16]bool{}
	for range 70_000 { // the numbers begin anew in it
		out := s.stamped(t, p.frame())
		id := binary.BigEndian.Uint16(out[18:])
		if id == 0 || sum(out[14:34]) != 0 {
			t.Fatalf("identification %d, checksum over the header %#x: expected a number, and 0", id, sum(out[14:34]))
		}
		if len(seen) < 65_535 && seen[id] {
			t.Fatalf("%d came again after %d", id, len(seen))
		}
		seen[id] = true
		copy(out[18:], []byte{0, 0})
		if copy(out[24:26], p.frame()[24:26]); !bytes.Equal(out, p.frame()) {
			t.Fatal("more than the identification and the checksum was changed")
		}
	}
	if len(seen) != 65_535 {
		t.Errorf("%d numbers, expected 65535", len(seen))
	}
}

func TestWhatHasAnIdentityOrMayGetNonePassesAsItIs(t *testing.T) {
	s := newStamper(t)
	fragment := numbered(0)
	fragment.flags = dontFragment | 0x2000
	tail := numbered(0)
	tail.flags = dontFragment | 0x0010
	signed := numbered(0)
	signed.flags, signed.protocol = dontFragment, ah
	for name, frame := range map[string][]byte{
		"one that AH has signed": signed.frame(), "one that may be fragmented": numbered(7).frame(), "the first of several fragments": fragment.frame(),
		"a later one": tail.frame(), "IPv6": ipv6{next: udp, payload: []byte("a")}.frame(),
		"ARP": ethernet(nil, 0x0806, make([]byte, 28)), "half a header": numbered(0).frame()[:30],
	} {
		t.Run(name, func(t *testing.T) {
			if out := s.stamped(t, frame); !bytes.Equal(out, frame) {
				t.Errorf("%x became %x", frame, out)
			}
		})
	}
}
