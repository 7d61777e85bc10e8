// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

const longestShown = 3000 // bytes of a frame; the kernel requires at least 14

// Any frame, a second one that differs by `edits` (three bytes each: position and value), and `order`, the arrivals of both
// on the paths, one byte for each.
func FuzzOnlyCopiesOfAnotherPathAreDropped(f *testing.F) {
	turns := []byte{0, 1, 3, 2, 4, 5, 0, 3}
	for flow := range flows {
		f.Add(sent(flow, 7)(64), []byte{0, 22, 1}, turns, true)
		f.Add(sent(flow, 7)(64), []byte{0, 50, 1}, turns, false)
		f.Add(sent(flow, 7)(64), []byte{0, 49, 0x80, 0, 57, 0x80}, turns, true) // one bit of two words
		f.Add(sent(flow, 7)(64), []byte{0, 5, 1}, turns, false)                 // another port's
		f.Add(sent(flow, 7)(64), []byte{0, 22, 66}, turns, true)                // a TTL of 2
		f.Add(sent(flow, 7)(64), []byte{0, 21, 66}, turns, false)               // a hop limit of 2
		f.Add(sent(flow, 7)(64), []byte{0, 20, 0x80}, turns, true)              // the reserved flag
	}
	vast := ipv6{next: udp, payload: make([]byte, 2000)}
	f.Add(vast.frame(), []byte{7, 0, 1}, turns, false)
	f.Add(ethernet(nil, 0x0806, make([]byte, 28)), []byte{}, turns, false)
	b := newBench(f, ways, 3)
	f.Fuzz(func(t *testing.T, frame, edits, order []byte, mend bool) {
		if len(frame) < 14 || len(frame) > longestShown {
			return
		}
		b.t = t
		other := slices.Clone(frame)
		for ; len(edits) >= 3; edits = edits[3:] {
			if at := int(binary.BigEndian.Uint16(edits)); at < len(other) {
				other[at] ^= edits[2]
			} else if cut := len(other) - at%16; cut >= 14 {
				other = other[:cut]
			}
		}
		if mend {
			frame, other = addedUp(frame), addedUp(other)
		}
		b.forgets()
		beside := newRule(time.Minute, ways, 3)
		for n, each := range order[:min(len(order), 16)] {
			path, shown := int(each>>1)%3, [][]byte{frame, other}[each&1]
			if verdict, expected := b.comes(path, shown), beside.comes(path, shown); verdict != expected {
				t.Fatalf("arrival %d by path %d: verdict %d, by the rule %d\n%x", n, path, verdict, expected, shown)
			}
		}
	})
}

// addedUp returns a frame with a valid IPv4 header checksum, if its header is complete.
func addedUp(frame []byte) []byte {
	at := 14
	for len(frame) >= at+20 && slices.Contains([]uint16{0x8100, 0x88a8}, binary.BigEndian.Uint16(frame[at-2:])) {
		at += 4
	}
	if len(frame) < at+20 || len(frame) < at+int(frame[at]&0x0f)*4 || frame[at]&0x0f < 5 {
		return frame
	}
	frame = slices.Clone(frame)
	header := frame[at : at+int(frame[at]&0x0f)*4]
	clear(header[10:12])
	binary.BigEndian.PutUint16(header[10:], sum(header))
	return frame
}
