// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestEdgeOfTheWindowIsNotTakenBack(t *testing.T) {
	for _, shift := range []int{0, 7, 10, 14} {
		b := newBench(t)
		b.handshake(usual, join(mss(1460), scale(byte(shift))))
		own := uint16(min(60000, 4<<20>>shift))
		edge := 0
		for acked, lowest := 0, 1<<30; ; acked += 2920 {
			b.sends(acked + 100)
			window := b.window(b.to(ackOf(acked, own))) << shift
			if acked == 0 {
				b.cap(most)
			}
			if acked+window+1<<shift <= edge {
				t.Fatalf("at scale %d the right edge is %d, and was %d", shift, acked+window, edge)
			}
			edge = max(edge, acked+window)
			if window > lowest+1<<shift {
				t.Fatalf("at scale %d a window of %d after %d", shift, window, lowest)
			}
			lowest = min(lowest, window)
			if window == up(most*1460, shift)<<shift {
				break
			}
			if acked > int(own)<<shift {
				t.Fatalf("at scale %d a window of %d after %d bytes", shift, window, acked)
			}
		}
	}
}

func TestLowerCapClosesTheWindowByAcks(t *testing.T) {
	b := newBench(t)
	b.cap(most)
	b.handshake(usual, usual)
	b.to(ackOf(0, 4000))
	b.cap(2)
	for _, c := range []struct{ acked, window int }{
		{0, most * 1460}, {1460, (most - 1) * 1460}, {5 * 1460, (most - 5) * 1460}, {8 * 1460, 2 * 1460}, {20 * 1460, 2 * 1460},
	} {
		b.sends(c.acked + 100)
		got := b.window(b.to(ackOf(c.acked, 4000))) << 7
		if got < c.window-127 || got > c.window+2*127 {
			t.Fatalf("a window of %d after %d bytes, expected %d", got, c.acked, c.window)
		}
	}
}

func TestAckOfUnsentDataMovesNoEdge(t *testing.T) {
	b := newBench(t)
	b.cap(most)
	b.handshake(usual, usual)
	b.to(ackOf(1<<29, 4000))
	if window := b.window(b.to(ackOf(0, 4000))); window != up(most*1460, 7) {
		t.Fatalf("a window of %d, expected %d", window, up(most*1460, 7))
	}
	if f := b.flow(); f.AckedBytes != 0 {
		t.Fatalf("%d bytes are acknowledged, expected none", f.AckedBytes)
	}
}

// ramped passes an acknowledgement each 5 ms of the programs' time until the window is unmodified. It returns that
// time without and with the real time that passed.
func (b *bench) ramped(own int) (shown, most time.Duration) {
	b.t.Helper()
	const each = 5 * time.Millisecond
	last, begun := 0, time.Now()
	for acks := 1; acks < 2000; acks++ {
		b.change(func(f *flow) { f.AllowedNS -= uint64(each) })
		window := b.window(b.to(ackOf(0, 50000)))
		if window > 2*max(last, 20*up(1460, 7)) && last > 0 {
			b.t.Fatalf("a window of %d after one of %d", window, last)
		}
		if last = window; window == own {
			shown = time.Duration(acks) * each
			return shown, shown + time.Since(begun)
		}
	}
	b.t.Fatalf("a window of %d after 10 s", last)
	return 0, 0
}

func TestLiftedWindowGrowsGradually(t *testing.T) {
	for name, lift := range map[string]func(*bench){
		"the lease is over": (*bench).leaseOver, "the cap is gone": func(b *bench) { b.cap(0) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cap(2)
			b.handshake(usual, usual)
			b.to(ackOf(0, 50000))
			lift(b)
			if shown, most := b.ramped(50000); most < 500*time.Millisecond || shown > 2*time.Second {
				t.Fatalf("it took %v to %v, expected 0.5 to 2 s", shown, most)
			}
			if f := b.flow(); f.AllowedBytes != 0 {
				t.Fatalf("%d bytes are still allowed", f.AllowedBytes)
			}
		})
	}
}

func TestWindowGrowsToAHigherCap(t *testing.T) {
	b := newBench(t)
	b.cap(2)
	b.handshake(usual, usual)
	first := b.window(b.to(ackOf(0, 50000)))
	b.cap(200)
	if window := b.window(b.to(ackOf(0, 50000))); window > 2*first {
		t.Fatalf("a window of %d after %d", window, first)
	}
	if shown, _ := b.ramped(up(200*1460, 7)); shown > 2*time.Second {
		t.Fatalf("it took %v", shown)
	}
}

func TestWindowAtMostDoublesAfterSilence(t *testing.T) {
	b := newBench(t)
	b.cap(8)
	b.handshake(usual, usual)
	before := b.window(b.to(ackOf(0, 50000)))
	b.cap(0)
	b.change(func(f *flow) { f.AllowedNS -= uint64(hour) })
	if window := b.window(b.to(ackOf(0, 50000))); window > 2*before {
		t.Fatalf("a window of %d after %d", window, before)
	}
}

var capable = []byte{30, 4, 0x01, 0x81}

// dss acknowledges bytes at the MPTCP level.
func dss(acked uint32, long bool) []byte {
	if long {
		return binary.BigEndian.AppendUint64([]byte{30, 12, 0x20, 3}, 7<<32|uint64(acked))
	}
	return binary.BigEndian.AppendUint32([]byte{30, 8, 0x20, 1}, acked)
}

func TestMPTCPEdgeFollowsTheDataSequence(t *testing.T) {
	for _, long := range []bool{false, true} {
		b := newBench(t)
		b.handshake(join(usual, capable), join(usual, capable))
		shown := func(data uint32) int {
			s := ackOf(0, 4000)
			s.options = join(stamps(1, 1), dss(data, long))
			return b.window(b.to(s))
		}
		shown(100)
		b.cap(most)
		if window := shown(100); window != 4000 {
			t.Fatalf("a window of %d, expected what was advertised", window)
		}
		// The data used the other subflow.
		if window := shown(100 + 4000<<7); window != up(most*1460, 7) {
			t.Fatalf("a window of %d, expected %d", window, up(most*1460, 7))
		}
	}
}
