// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/binary"
	"log/slog"
	"maps"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/clock"
)

const (
	fin, syn, rst, ack = 0x01, 0x02, 0x04, 0x10

	terminalPort, otherPort = 40000, 443
	hour                    = time.Hour
)

var (
	terminal4, other4 = netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.9.9.9")
	terminal6, other6 = netip.MustParseAddr("fd01::1"), netip.MustParseAddr("fd09::9")

	none = []byte{1} // a no-operation option
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// bench runs the programs on packets without sending any.
type bench struct {
	t testing.TB
	*programs
	six bool
}

func newBench(t testing.TB) *bench {
	t.Helper()
	p, err := load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close() })
	return &bench{t: t, programs: p}
}

// cap sets a cap between the two hosts; 0 removes it.
func (b *bench) cap(segments uint32) {
	b.t.Helper()
	caps := map[pair]uint32{}
	if segments != 0 {
		caps[b.pair()] = segments
	}
	b.must(b.hold(caps, hour))
}

func (b *bench) pair() pair {
	terminal, other := b.addresses()
	return pair{terminal.As16(), other.As16()}
}

func (b *bench) ends() ends {
	e := ends{Pair: b.pair()}
	binary.BigEndian.PutUint16(e.TerminalPort[:], terminalPort)
	binary.BigEndian.PutUint16(e.OtherPort[:], otherPort)
	return e
}

func (b *bench) addresses() (terminal, other netip.Addr) {
	if b.six {
		return terminal6, other6
	}
	return terminal4, other4
}

// to passes a segment to the terminal and returns the result.
func (b *bench) to(s segment) []byte {
	b.t.Helper()
	terminal, other := b.addresses()
	s.from, s.fromPort, s.into, s.intoPort = other, otherPort, terminal, terminalPort
	return b.sent(s.frame())
}

// from passes a segment from the terminal.
func (b *bench) from(s segment) {
	b.t.Helper()
	terminal, other := b.addresses()
	s.from, s.fromPort, s.into, s.intoPort = terminal, terminalPort, other, otherPort
	b.came(s.frame())
}

func (b *bench) sent(frame []byte) []byte {
	b.t.Helper()
	verdict, out, err := b.objects.Lower.Test(frame)
	b.must(err)
	if int32(verdict) != -1 {
		b.t.Fatalf("verdict %d, expected that it passes on", int32(verdict))
	}
	return out
}

func (b *bench) came(frame []byte) {
	b.t.Helper()
	verdict, out, err := b.objects.Watch.Test(frame)
	b.must(err)
	if int32(verdict) != -1 || string(out) != string(frame) {
		b.t.Fatalf("verdict %d, %x, expected that it passes on as it is: %x", int32(verdict), out, frame)
	}
}

// handshake completes a handshake that the terminal begins. Its data begin at 1001, the other end's at 5001.
func (b *bench) handshake(terminal, other []byte) []byte {
	b.t.Helper()
	b.from(segment{seq: 1000, flags: syn, window: 64240, options: terminal})
	out := b.to(segment{seq: 5000, ack: 1001, flags: syn | ack, window: 65160, options: other})
	b.from(segment{seq: 1001, ack: 5001, flags: ack, window: 502})
	return out
}

// flow returns the state of the connection.
func (b *bench) flow() flow {
	b.t.Helper()
	var f flow
	b.must(b.objects.Flows.Lookup(b.ends(), &f))
	return f
}

// change modifies the state of the connection.
func (b *bench) change(to func(*flow)) {
	b.t.Helper()
	f := b.flow()
	to(&f)
	b.must(b.objects.Flows.Put(b.ends(), f))
}

// leaseOver ends the lease.
func (b *bench) leaseOver() {
	b.t.Helper()
	b.must(b.hold(maps.Clone(b.caps), 0))
	for clock.Monotonic() <= b.until {
		time.Sleep(time.Millisecond)
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// segment is a TCP segment.
type segment struct {
	from, into         netip.Addr
	fromPort, intoPort uint16
	seq, ack           uint32
	flags              byte
	window             uint16
	options            []byte // padded with no-operation options
	payload            int
	beneath            []byte // IPv4 options
}

func (s segment) frame() []byte {
	tcp := make([]byte, 20, 60+s.payload)
	binary.BigEndian.PutUint16(tcp, s.fromPort)
	binary.BigEndian.PutUint16(tcp[2:], s.intoPort)
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp = append(tcp, s.options...)
	for len(tcp)%4 != 0 {
		tcp = append(tcp, none...)
	}
	tcp[12], tcp[13] = byte(len(tcp)/4)<<4, s.flags
	binary.BigEndian.PutUint16(tcp[14:], s.window)
	for i := range s.payload {
		tcp = append(tcp, byte(i))
	}
	binary.BigEndian.PutUint16(tcp[16:], ^sum(s.from.AsSlice(), s.into.AsSlice(), []byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}, tcp))
	if s.from.Is4() {
		return ethernet(0x0800, append(s.ipv4(len(tcp)), tcp...))
	}
	header := make([]byte, 40)
	header[0], header[6], header[7] = 0x60, 6, 64
	binary.BigEndian.PutUint16(header[4:], uint16(len(tcp)))
	copy(header[8:], s.from.AsSlice())
	copy(header[24:], s.into.AsSlice())
	return ethernet(0x86dd, append(header, tcp...))
}

func (s segment) ipv4(bytes int) []byte {
	header := append(make([]byte, 20), s.beneath...)
	header[0], header[8], header[9] = 0x40|byte(len(header)/4), 64, 6
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+bytes))
	copy(header[12:], s.from.AsSlice())
	copy(header[16:], s.into.AsSlice())
	binary.BigEndian.PutUint16(header[10:], ^sum(header))
	return header
}

func ethernet(kind uint16, packet []byte) []byte {
	frame := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1}
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	for len(frame) < 60 { // padding to the minimum frame
		frame = append(frame, 0)
	}
	return frame
}

// tcpOf returns the segment in a frame made by this package, and whether its checksum is right.
func tcpOf(frame []byte) (tcp []byte, right bool) {
	packet, ends := frame[14:], []byte(nil)
	if packet[0]>>4 == 4 {
		ends, tcp = packet[12:20], packet[int(packet[0]&15)*4:binary.BigEndian.Uint16(packet[2:])]
	} else {
		ends, tcp = packet[8:40], packet[40:40+int(binary.BigEndian.Uint16(packet[4:]))]
	}
	return tcp, sum(ends, []byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}, tcp) == 0xffff
}

// window returns the window of a frame, and requires a right checksum.
func (b *bench) window(frame []byte) int {
	b.t.Helper()
	tcp, right := tcpOf(frame)
	if !right {
		b.t.Fatalf("a wrong checksum: %x", frame)
	}
	return int(binary.BigEndian.Uint16(tcp[14:]))
}

func sum(parts ...[]byte) uint16 {
	var total uint32
	for _, part := range parts {
		for i, b := range part {
			total += uint32(b) << (8 * (1 - i&1))
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

func mss(bytes uint16) []byte { return []byte{2, 4, byte(bytes >> 8), byte(bytes)} }

func scale(shift byte) []byte { return []byte{3, 3, shift} }

func stamps(value, echo uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{8, 10}, value), echo)
}

func join(options ...[]byte) (all []byte) {
	for _, each := range options {
		all = append(all, each...)
	}
	return all
}
