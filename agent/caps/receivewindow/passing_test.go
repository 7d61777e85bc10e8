// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/binary"
	"testing"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/clock"
)

func (b *bench) passes() *agentv1.Passing {
	b.t.Helper()
	all, _, err := b.passing()
	b.must(err)
	if len(all) != 1 {
		b.t.Fatalf("%v, expected one connection", all)
	}
	return all[0]
}

// data is a segment with the terminal's bytes from begin to end.
func data(begin, end int, options ...[]byte) segment {
	return segment{seq: uint32(1001 + begin), ack: 5001, flags: ack, payload: end - begin, options: join(options...)}
}

// roughly allows the real time since begun as error.
func roughly(t *testing.T, what string, got uint32, expected time.Duration, begun time.Time) {
	t.Helper()
	most := expected + time.Since(begun) + time.Millisecond
	if took := time.Duration(got) * time.Microsecond; took < expected || took > most {
		t.Fatalf("%s of %v, expected %v to %v", what, took, expected, most)
	}
}

func TestPassingCountsAcknowledgedBytes(t *testing.T) {
	for _, six := range []bool{false, true} {
		b, begun := newBench(t), time.Now()
		b.six = six
		b.handshake(usual, join(mss(1400), scale(7)))
		b.from(data(0, 1000))
		b.from(data(1000, 1400))
		b.to(ackOf(1000, 4000))
		b.to(ackOf(1000, 4000))
		b.to(ackOf(900, 4000))
		b.to(ackOf(1400, 4000))
		passing := b.passes()
		terminal, other := b.addresses()
		if passing.BytesSent != 1400 || passing.MssBytes != 1400 || !passing.HasScale || passing.Joined {
			t.Errorf("%v, expected 1400 bytes in segments of 1400", passing)
		}
		if passing.TerminalAddress != terminal.String() || passing.OtherAddress != other.String() ||
			passing.TerminalPort != terminalPort || passing.OtherPort != otherPort {
			t.Errorf("%v, expected both ends", passing)
		}
		b.change(func(f *flow) { f.DataNS -= uint64(7 * time.Second) })
		ms := time.Duration(b.passes().SinceDataMs)
		if most := 7001 + time.Since(begun)/time.Millisecond; ms < 7000 || ms > most {
			t.Errorf("%d ms since the last data, expected 7000 to %d", ms, most)
		}
	}
}

func TestPassingReportsOlderConnections(t *testing.T) {
	b := newBench(t)
	b.from(data(5000, 6000))
	b.to(ackOf(5500, 4000))
	b.from(data(6000, 7000))
	b.to(ackOf(7000, 4000))
	if passing := b.passes(); passing.HasScale || passing.BytesSent != 1500 || passing.MssBytes != 0 || passing.SrttUs != 0 {
		t.Fatalf("%v, expected 1500 bytes and nothing of its beginning", passing)
	}
}

func TestPassingReportsJoinedSubflows(t *testing.T) {
	joins := []byte{30, 12, 0x10, 2, 0, 0, 0, 0, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		option []byte
		joined bool
	}{"MP_JOIN": {joins, true}, "MP_CAPABLE": {capable, false}} {
		b := newBench(t)
		b.handshake(join(usual, c.option), join(usual, c.option))
		if b.passes().Joined != c.joined || b.flow().MPTCP == 0 {
			t.Errorf("%s: joined is %v, expected %v", name, b.passes().Joined, c.joined)
		}
	}
}

func TestRoundTripAddsBothHalves(t *testing.T) {
	b, begun := newBench(t), time.Now()
	b.handshake(join(usual, stamps(1, 0)), join(usual, stamps(100, 1)))
	b.change(func(f *flow) { f.Far, f.Near, f.NearNS, f.FarNS = half{}, half{}, 0, 0 })
	for range 2 {
		b.change(func(f *flow) { f.NearLatest, f.Sent = 100, 1001 })
		b.from(data(0, 1000, stamps(2, 100)))
		b.change(func(f *flow) { f.FarNS -= uint64(300 * time.Millisecond) })
		s := ackOf(1000, 4000)
		s.options = stamps(200, 2)
		b.to(s)
		b.change(func(f *flow) { f.NearNS -= uint64(500 * time.Millisecond) })
		b.from(data(1000, 2000, stamps(3, 200)))
	}
	roughly(t, "a round trip", b.passes().SrttUs, 800*time.Millisecond, begun)
	roughly(t, "a least round trip", b.passes().MinRttUs, 800*time.Millisecond, begun)
}

func TestHandshakeIsMeasured(t *testing.T) {
	b, begun := newBench(t), time.Now()
	b.from(segment{seq: 1000, flags: syn, options: usual})
	const there, back = 20 * time.Millisecond, 30 * time.Millisecond
	time.Sleep(there)
	b.to(segment{seq: 5000, ack: 1001, flags: syn | ack, options: usual})
	time.Sleep(back)
	b.from(segment{seq: 1001, ack: 5001, flags: ack})
	roughly(t, "a round trip", b.passes().MinRttUs, there+back, begun.Add(there+back))
}

func TestRetransmissionsAreNotMeasured(t *testing.T) {
	t.Run("data", func(t *testing.T) {
		b := newBench(t)
		b.handshake(usual, usual)
		b.change(func(f *flow) { f.Far = half{} })
		b.from(data(0, 1000))
		b.from(data(1000, 2000))
		b.from(data(0, 1000))
		b.to(ackOf(2000, 4000))
		if f := b.flow(); f.Far.LeastUS != 0 {
			t.Fatalf("%+v", f.Far)
		}
		b.from(data(2000, 3000))
		b.to(ackOf(3000, 4000))
		if f := b.flow(); f.Far.LeastUS == 0 {
			t.Fatal("what was sent once is not measured")
		}
	})
	t.Run("the first segment", func(t *testing.T) {
		b := newBench(t)
		b.from(segment{seq: 1000, flags: syn, options: usual})
		b.handshake(usual, usual)
		if f := b.flow(); f.Far.LeastUS != 0 || f.Near.LeastUS == 0 {
			t.Fatalf("%+v, %+v, expected the near half alone", f.Far, f.Near)
		}
	})
	t.Run("its answer", func(t *testing.T) {
		b := newBench(t)
		b.from(segment{seq: 1000, flags: syn, options: usual})
		for range 2 {
			b.to(segment{seq: 5000, ack: 1001, flags: syn | ack, options: usual})
		}
		b.from(segment{seq: 1001, ack: 5001, flags: ack})
		if f := b.flow(); f.Far.LeastUS == 0 || f.Near.LeastUS != 0 {
			t.Fatalf("%+v, %+v, expected the far half alone", f.Far, f.Near)
		}
	})
}

func TestRoundTripExcludesIdleTime(t *testing.T) {
	for name, c := range map[string]struct {
		between  []segment
		measured bool
	}{
		"silence": {nil, false}, "acknowledgements": {[]segment{{seq: 1001, ack: 5001, flags: ack, options: stamps(3, 50)}}, false},
		"older data": {[]segment{data(0, 1000, stamps(3, 50))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.handshake(join(usual, stamps(1, 0)), join(usual, stamps(50, 1)))
			b.change(func(f *flow) { f.NearNS, f.Near = 0, half{} })
			s := ackOf(0, 4000)
			s.options = stamps(100, 1)
			b.to(s)
			for _, each := range c.between {
				b.from(each)
			}
			b.change(func(f *flow) { f.NearNS -= uint64(5 * time.Second) })
			b.from(data(1000, 2000, stamps(4, 100)))
			if f := b.flow(); f.Near.LeastUS != 0 != c.measured {
				t.Fatalf("%+v, expected that it is measured: %v", f.Near, c.measured)
			}
		})
	}
}

func TestClosedConnectionIsRemovedSoon(t *testing.T) {
	finish := segment{seq: 1001, ack: 5001, flags: fin | ack}
	for name, c := range map[string]struct {
		by   func(*bench)
		over bool
	}{
		"both ends":    {func(b *bench) { b.from(finish); b.to(segment{seq: 5001, ack: 1002, flags: fin | ack}) }, true},
		"one end":      {func(b *bench) { b.from(finish) }, false},
		"a reset":      {func(b *bench) { b.to(segment{flags: rst}) }, true},
		"what was not": {func(b *bench) { b.from(segment{flags: rst}); b.from(data(0, 100)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.handshake(usual, usual)
			c.by(b)
			told, _, err := b.passing()
			b.must(err)
			if len(told) == 0 != c.over {
				t.Fatalf("the report lists %v, expected the connection to be over: %v", told, c.over)
			}
			b.must(b.forget())
			b.flow() // packets in flight still belong to it
			b.change(func(f *flow) { f.SeenNS -= uint64(3 * time.Second) })
			b.must(b.forget())
			var f flow
			if err := b.objects.Flows.Lookup(b.ends(), &f); err != nil != c.over {
				t.Fatalf("looking up the flow returns %v, expected it to be deleted: %v", err, c.over)
			}
		})
	}
}

func TestPassingReportsTheLatestFirst(t *testing.T) {
	b := newBench(t)
	for n := range maxPassing + 100 {
		e := b.ends()
		binary.BigEndian.PutUint16(e.TerminalPort[:], uint16(1+n))
		b.must(b.objects.Flows.Put(e, flow{SeenNS: uint64(clock.Monotonic())}))
	}
	all, held, err := b.passing()
	b.must(err)
	if len(all) != maxPassing || held != 0 || all[0].TerminalPort != maxPassing+100 {
		t.Fatalf("the report has %d connections, %d of them capped, the first %v", len(all), held, all[0])
	}
}

func TestForgedConnectionsHideNoRealOnes(t *testing.T) {
	b := newBench(t)
	b.handshake(usual, usual)
	b.change(func(f *flow) { f.SeenNS -= uint64(time.Second) })
	for n := range maxPassing + 100 {
		e := b.ends()
		binary.BigEndian.PutUint16(e.OtherPort[:], uint16(1+n))
		if e != b.ends() {
			b.must(b.objects.Flows.Put(e, flow{SeenNS: uint64(clock.Monotonic())}))
		}
	}
	all, _, err := b.passing()
	b.must(err)
	if len(all) != maxPassing || !all[0].HasScale || all[0].OtherPort != otherPort {
		t.Fatalf("the report has %d connections, the first %v, expected the one with an observed handshake", len(all), all[0])
	}
}

func TestFloodsEvictNoConnection(t *testing.T) {
	for name, s := range map[string]segment{"of first segments": {flags: syn, options: usual}, "of data": data(0, 10)} {
		b := newBench(t)
		b.cap(most)
		b.handshake(usual, usual)
		s.from, s.into, s.intoPort = terminal4, other4, 80
		for n := range 20_000 {
			s.fromPort = uint16(n)
			b.came(s.frame())
		}
		if window := b.window(b.to(ackOf(0, 4000))); window != up(most*1460, 7) {
			t.Errorf("%s: a window of %d, expected %d", name, window, up(most*1460, 7))
		}
	}
}

func TestHeldCountsCappedConnections(t *testing.T) {
	b := newBench(t)
	b.handshake(usual, usual)
	for _, c := range []struct {
		name string
		by   func()
		held int
	}{
		{"no cap", func() {}, 0}, {"a cap", func() { b.cap(5) }, 1}, {"the lease is over", b.leaseOver, 0},
		{"its beginning was not seen", func() { b.cap(5); b.change(func(f *flow) { f.HasScale = 0 }) }, 0},
		{"silent", func() { b.change(func(f *flow) { f.HasScale = 1; f.SeenNS = 0 }) }, 0},
	} {
		c.by()
		if _, held, err := b.passing(); err != nil || held != c.held {
			t.Errorf("%s: %d held, %v, expected %d", c.name, held, err, c.held)
		}
	}
}

// Another host behind the port forges packets. It knows the ports but no sequence numbers.
func TestForgedPacketsChangeNoMeasurement(t *testing.T) {
	b := newBench(t)
	b.handshake(usual, usual)
	b.sends(2920)
	b.to(ackOf(2920, 4000))
	before := b.flow()
	for _, seq := range []uint32{1 << 30, 1 << 31, 3 << 30, 0} {
		b.from(segment{seq: seq, ack: 5001, flags: ack, payload: 100})
		b.to(ackOf(2920, 4000))
		for _, end := range []byte{rst, fin | ack} {
			b.from(segment{seq: seq + 1<<20, ack: 5001, flags: end})
		}
	}
	after := b.flow()
	if after.Far != before.Far || after.Near != before.Near || after.Finished != 0 {
		t.Fatalf("%+v and %+v, finished %d; before, %+v and %+v", after.Far, after.Near, after.Finished, before.Far, before.Near)
	}
}
