// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// fitted is a second implementation of the MSS rule. It returns nil if the packet is dropped for its length.
func fitted(frame []byte, largest int) []byte {
	if len(frame) < 14 || (frame[0]|frame[6])&1 != 0 {
		return frame
	}
	var at, headers int
	var ends []byte
	packet := frame[14:]
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == 0x0800 && len(packet) >= 20 && packet[0]>>4 == 4:
		header, bytes := int(packet[0]&15)*4, int(binary.BigEndian.Uint16(packet[2:]))
		if header < 20 || bytes < header || bytes > len(packet) || sum(packet[:header]) != 0xffff {
			return frame
		}
		if bytes > largest {
			return ruleOfLongIPv4(frame, packet, header)
		}
		if packet[9] != tcp || binary.BigEndian.Uint16(packet[6:])&0x3fff != 0 {
			return frame
		}
		at, headers, ends, packet = header, 40, packet[12:20], packet[:bytes]
	case kind == 0x86dd && len(packet) >= 40 && packet[0]>>4 == 6:
		bytes := 40 + int(binary.BigEndian.Uint16(packet[4:]))
		if bytes == 40 || bytes > len(packet) {
			return frame
		}
		next, behind, plain, ok := last(packet[6], packet[40:bytes])
		if !ok {
			return frame
		}
		if bytes > max(largest, 1280) {
			return ruleOfLongIPv6(frame, packet, next, behind)
		}
		if next != tcp || !plain {
			return frame
		}
		at, headers, ends, packet = bytes-len(behind), 60, packet[8:40], packet[:bytes]
	default:
		return frame
	}
	out := slices.Clone(frame)
	if !lowered(out[14+at:14+len(packet)], ends, uint16(largest-headers)) {
		return frame
	}
	return out
}

// lowered lowers the MSS option of a SYN in place, and returns whether it changed anything.
func lowered(segment, ends []byte, most uint16) bool {
	if len(segment) < 20 || segment[13]&syn == 0 {
		return false
	}
	length := int(segment[12]>>4) * 4
	if length < 20 || length > len(segment) {
		return false
	}
	unfinished := binary.BigEndian.Uint16(segment[16:]) == sum(ends, pseudo(tcp, len(segment)))
	before, changed := slices.Clone(segment[:length]), false
	for at := 20; at+4 <= length; {
		switch {
		case segment[at] == 0 || segment[at] != 1 && segment[at+1] < 2:
			at = length
			continue
		case segment[at] == 1:
			at++
			continue
		case segment[at] == 2 && segment[at+1] == 4 && binary.BigEndian.Uint16(segment[at+2:]) > most:
			binary.BigEndian.PutUint16(segment[at+2:], most)
			changed = true
		}
		at += int(segment[at+1])
	}
	if changed && !unfinished {
		// The sum stays the same: a right checksum stays right, a wrong one wrong.
		clear(before[16:18])
		check := uint32(binary.BigEndian.Uint16(segment[16:]))
		clear(segment[16:18])
		total := check + uint32(sum(before)) + uint32(^sum(segment[:length]))
		for total > 0xffff {
			total = total>>16 + total&0xffff
		}
		binary.BigEndian.PutUint16(segment[16:], uint16(total))
	}
	return changed
}

// last returns the protocol and payload behind the extension headers; plain: without a routing, fragment or
// authentication header.
func last(next byte, rest []byte) (protocol byte, behind []byte, plain, ok bool) {
	plain = true
	for range 6 {
		var bytes int
		if slices.Contains([]byte{0, 43, 44, 51, 60}, next) && len(rest) < 8 {
			return 0, nil, false, false
		}
		switch next {
		case 0, 60:
			bytes = 8 + 8*int(rest[1])
		case 43:
			bytes, plain = 8+8*int(rest[1]), false
		case 44:
			if bytes, plain = 8, false; binary.BigEndian.Uint16(rest[2:])&0xfff8 != 0 {
				return 0, nil, false, false
			}
		case 51:
			bytes, plain = 8+4*int(rest[1]), false
		default:
			return next, rest, plain, true
		}
		if bytes > len(rest) {
			return 0, nil, false, false
		}
		next, rest = rest[0], rest[bytes:]
	}
	return 0, nil, false, false
}

// ruleOfLongIPv4 returns nil, or the frame if its packet must not cause an ICMP error (RFC 1122 3.2.2) and passes.
func ruleOfLongIPv4(frame, packet []byte, header int) []byte {
	if binary.BigEndian.Uint16(packet[6:])&0x1fff != 0 ||
		packet[9] == icmp && (len(packet) <= header || slices.Contains([]byte{3, 4, 5, 11, 12}, packet[header])) {
		return frame
	}
	for _, a := range [][]byte{packet[12:16], packet[16:20]} {
		if a[0] == 0 || a[0] == 127 || a[0] >= 224 || a[0] == 169 && a[1] == 254 {
			return frame
		}
	}
	return nil
}

// ruleOfLongIPv6 returns nil, or the frame if its packet must not cause an ICMP error (RFC 4443 2.4) and passes.
func ruleOfLongIPv6(frame, packet []byte, next byte, behind []byte) []byte {
	if next == icmpv6 && (len(behind) == 0 || behind[0] < 128 || behind[0] == 137) {
		return frame
	}
	for _, a := range [][]byte{packet[8:24], packet[24:40]} {
		if a[0] == 0xff || a[0] == 0xfe && a[1]&0xc0 == 0x80 || bytes.Equal(a[:12], make([]byte, 12)) {
			return frame
		}
	}
	return nil
}

// follows compares the program with the rule.
func (b *bench) follows(frame []byte) {
	b.t.Helper()
	verdict, out := b.shown(frame)
	expected := fitted(frame, largest)
	switch {
	case expected == nil && verdict != dropped:
		b.t.Fatalf("verdict %d, expected that it ends: %x", verdict, frame)
	case expected != nil && verdict != passed:
		b.t.Fatalf("verdict %d, expected that it passes: %x", verdict, frame)
	case expected != nil && !alike(out, expected):
		b.t.Fatalf("%x\nbecame   %x\nexpected %x", frame, out, expected)
	}
}

// alike compares frames, with 0 and 0xffff as the same checksum.
func alike(one, other []byte) bool {
	if bytes.Equal(one, other) {
		return true
	}
	if len(one) != len(other) {
		return false
	}
	for at := 0; at+2 <= len(one); at++ {
		if one[at] == other[at] {
			continue
		}
		a, b := binary.BigEndian.Uint16(one[at:]), binary.BigEndian.Uint16(other[at:])
		return a^b == 0xffff && (a == 0 || b == 0) && bytes.Equal(one[at+2:], other[at+2:])
	}
	return true
}

func seeds() [][]byte {
	data := make([]byte, 1400)
	return [][]byte{
		syn4(syn, mss(1460)), syn6(syn, mss(1440)), syn4(syn|ack, append([]byte{1}, append(mss(1460), 1, 1, 0)...)),
		extended(0, make([]byte, 16)).frame(), extended(43, make([]byte, 16)).frame(), extended(ah, make([]byte, 16)).frame(),
		ipv4{protocol: udp, payload: data}.frame(), ipv6{next: udp, payload: data}.frame(),
		ipv4{protocol: icmp, payload: append([]byte{3}, data...)}.frame(), ipv6{next: icmpv6, payload: data}.frame(),
		ipv6{next: 44, payload: append([]byte{udp, 0, 0, 1}, data...)}.frame(),
	}
}

func TestRandomPacketsFollowTheRule(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		from := seeds()[random.IntN(len(seeds()))]
		for range random.IntN(4) {
			from[random.IntN(min(len(from), 90))] = byte(random.Uint32())
		}
		if random.IntN(8) == 0 {
			from = from[:14+random.IntN(len(from)-13)]
		}
		if random.IntN(2) == 0 {
			from = addedUp(from)
		}
		b.follows(from)
	}
}

// addedUp corrects the checksum of a complete IPv4 header.
func addedUp(frame []byte) []byte {
	if len(frame) < 34 || frame[14]&15 < 5 || len(frame) < 14+int(frame[14]&15)*4 {
		return frame
	}
	header := frame[14 : 14+int(frame[14]&15)*4]
	clear(header[10:12])
	binary.BigEndian.PutUint16(header[10:], ^sum(header))
	return frame
}

func FuzzPacketsFollowTheRule(f *testing.F) {
	for _, each := range seeds() {
		f.Add(each, true)
		f.Add(each, false)
	}
	b := newBench(f, port{LargestBytes: largest})
	f.Fuzz(func(t *testing.T, frame []byte, mend bool) {
		if len(frame) < 14 || len(frame) > longestShown {
			return
		}
		if frame = slices.Clone(frame); mend {
			frame = addedUp(frame)
		}
		b.t = t
		b.follows(frame)
	})
}
