// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"encoding/binary"
	"log/slog"
	"testing"
)

const (
	passed  = 2 // XDP_PASS
	dropped = 1 // XDP_DROP
	loDev   = 1 // ingress device of BPF_PROG_TEST_RUN

	longestShown = 3000 // bytes of a frame; the kernel needs at least 14

	tcp, udp, ah = 6, 17, 51
	dontFragment = 0x4000

	ack, syn = 0x10, 0x02
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// bench runs the program on packets without sending any.
type bench struct {
	t testing.TB
	*program
}

func newBench(t testing.TB, wanted port) *bench {
	t.Helper()
	p, err := load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close() })
	if wanted.LongestBytes == 0 {
		wanted.LongestBytes = 65535
	}
	if err := p.setPort(loDev, wanted); err != nil {
		t.Fatal(err)
	}
	return &bench{t, p}
}

func (b *bench) shown(frame []byte) (verdict uint32, out []byte) {
	b.t.Helper()
	verdict, out, err := b.objects.Program.Test(frame)
	if err != nil {
		b.t.Fatal(err)
	}
	return verdict, out
}

func (b *bench) passes(frame []byte) []byte {
	b.t.Helper()
	verdict, out := b.shown(frame)
	if verdict != passed {
		b.t.Fatalf("verdict %d, expected that it passes: %x", verdict, frame)
	}
	return out
}

type ipv4 struct {
	id       uint16
	flags    uint16 // with the fragment offset
	protocol uint8
	options  []byte
	payload  []byte
	from, to [4]byte
}

func (p ipv4) frame() []byte {
	header := make([]byte, 20+len(p.options))
	header[0] = 0x40 | byte(len(header)/4)
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(p.payload)))
	binary.BigEndian.PutUint16(header[4:], p.id)
	binary.BigEndian.PutUint16(header[6:], p.flags)
	header[8], header[9] = 64, p.protocol
	from, to := p.from, p.to
	if from == [4]byte{} {
		from = [4]byte{10, 0, 0, 1}
	}
	if to == [4]byte{} {
		to = [4]byte{10, 9, 9, 9}
	}
	copy(header[12:], from[:])
	copy(header[16:], to[:])
	copy(header[20:], p.options)
	binary.BigEndian.PutUint16(header[10:], ^sum(header))
	return ethernet(0x0800, append(header, p.payload...))
}

type ipv6 struct {
	next     uint8
	payload  []byte
	from, to [16]byte
}

func (p ipv6) frame() []byte {
	header := make([]byte, 40)
	header[0] = 0x60
	binary.BigEndian.PutUint16(header[4:], uint16(len(p.payload)))
	header[6], header[7] = p.next, 64
	from, to := p.from, p.to
	if from == [16]byte{} {
		from = [16]byte{0xfd, 1, 15: 1}
	}
	if to == [16]byte{} {
		to = [16]byte{0xfd, 9, 15: 9}
	}
	copy(header[8:], from[:])
	copy(header[24:], to[:])
	return ethernet(0x86dd, append(header, p.payload...))
}

func ethernet(kind uint16, packet []byte) []byte {
	frame := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1}
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	for len(frame) < 60 { // padding to the minimum frame
		frame = append(frame, 0)
	}
	return frame
}

// segment is a TCP segment with its checksum over `addresses`, those of both ends.
func segment(flags byte, options, payload, addresses []byte) []byte {
	s := make([]byte, 20, 20+len(options)+len(payload))
	binary.BigEndian.PutUint16(s, 40000)
	binary.BigEndian.PutUint16(s[2:], 443)
	s[12], s[13] = byte(20+len(options))/4<<4, flags
	s = append(append(s, options...), payload...)
	binary.BigEndian.PutUint16(s[16:], ^sum(addresses, pseudo(tcp, len(s)), s))
	return s
}

func pseudo(protocol byte, length int) []byte {
	return []byte{0, protocol, byte(length >> 8), byte(length)}
}
