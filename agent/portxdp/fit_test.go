// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

const largest = 1300

// mss is the TCP option.
func mss(value uint16) []byte { return binary.BigEndian.AppendUint16([]byte{2, 4}, value) }

func ends4(p ipv4) []byte { return p.frame()[26:34] }
func ends6(p ipv6) []byte { return p.frame()[22:54] }

func syn4(flags byte, options []byte) []byte {
	return ipv4{flags: dontFragment, protocol: tcp, payload: segment(flags, options, nil, ends4(ipv4{}))}.frame()
}

func syn6(flags byte, options []byte) []byte {
	return ipv6{next: tcp, payload: segment(flags, options, nil, ends6(ipv6{}))}.frame()
}

// extended has one extension header before the TCP segment.
func extended(kind byte, body []byte) ipv6 {
	s := segment(syn, mss(1440), nil, ends6(ipv6{}))
	return ipv6{next: kind, payload: append(append([]byte{tcp, byte(len(body)/8 - 1)}, body[2:]...), s...)}
}

func TestSYNAnnouncesAFittingMSS(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest})
	for name, c := range map[string]struct {
		frame  []byte
		at     int // offset of the option's value
		expect uint16
	}{
		"IPv4":                        {syn4(syn, mss(1460)), 14 + 20 + 22, largest - 40},
		"the other side's":            {syn4(syn|ack, mss(1460)), 14 + 20 + 22, largest - 40},
		"behind another option":       {syn4(syn, append([]byte{4, 2, 1, 1}, mss(1460)...)), 14 + 20 + 26, largest - 40},
		"at an odd place":             {syn4(syn, append(append([]byte{1}, mss(1460)...), 1, 1, 0)), 14 + 20 + 23, largest - 40},
		"said twice, the second":      {syn4(syn, append(mss(1300), mss(1460)...)), 14 + 20 + 26, largest - 40},
		"less, which stays":           {syn4(syn, mss(900)), 14 + 20 + 22, 900},
		"just as much":                {syn4(syn, mss(largest-40)), 14 + 20 + 22, largest - 40},
		"of a segment that is no SYN": {syn4(ack, mss(1460)), 14 + 20 + 22, 1460},
		"IPv6":                        {syn6(syn, mss(1440)), 14 + 40 + 22, largest - 60},
		"behind hop-by-hop options":   {extended(0, make([]byte, 16)).frame(), 14 + 40 + 16 + 22, largest - 60},
		"behind IPv4's options":       {ipv4{protocol: tcp, options: []byte{1, 1, 1, 0}, payload: segment(syn, mss(1460), nil, ends4(ipv4{}))}.frame(), 14 + 24 + 22, largest - 40},
	} {
		t.Run(name, func(t *testing.T) {
			out := b.passes(c.frame)
			if got := binary.BigEndian.Uint16(out[c.at:]); got != c.expect {
				t.Fatalf("%d, expected %d in %x", got, c.expect, out)
			}
			if expected := fitted(c.frame, largest); !bytes.Equal(out, expected) {
				t.Fatalf("%x became %x, expected %x", c.frame, out, expected)
			}
			if checksumOf(out) != checksumOf(c.frame) {
				t.Fatalf("the checksum is not kept: %x", out)
			}
		})
	}
}

// checksumOf returns the sum over a segment and its pseudo header, for packets without options: 0 if the checksum is
// right.
func checksumOf(frame []byte) uint16 {
	ends, behind := frame[26:34], frame[34:]
	if frame[12] == 0x86 {
		ends, behind = frame[22:54], frame[54:]
	}
	return sum(ends, behind) % 0xffff
}

func TestPartialChecksumIsLeftToTheHardware(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest})
	for name, frame := range map[string][]byte{"IPv4": syn4(syn, mss(1460)), "IPv6": syn6(syn, mss(1440))} {
		ends, at := frame[26:34], 34
		if name == "IPv6" {
			ends, at = frame[22:54], 54
		}
		binary.BigEndian.PutUint16(frame[at+16:], sum(ends, pseudo(tcp, 24)))
		out := b.passes(frame)
		if !bytes.Equal(out[at+16:at+18], frame[at+16:at+18]) || bytes.Equal(out, frame) {
			t.Errorf("%s: %x became %x, expected the MSS alone to be another", name, frame, out)
		}
	}
}

func TestPacketsWithoutAnMSSAreUnchanged(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest})
	for name, frame := range map[string][]byte{
		"no option":             syn4(syn, nil),
		"an option of no bytes": syn4(syn, []byte{3, 0, 2, 4, 5, 180, 0, 0}),
		"behind the end":        syn4(syn, append([]byte{0, 0, 0, 0}, mss(1460)...)),
		"half an option":        syn4(syn, []byte{1, 1, 2, 4}),
		"of another length":     syn4(syn, []byte{2, 6, 5, 180, 0, 0, 1, 0}),
		"a fragment":            ipv4{flags: 0x2000, protocol: tcp, payload: segment(syn, mss(1460), nil, ends4(ipv4{}))}.frame(),
		"UDP":                   ipv4{protocol: udp, payload: segment(syn, mss(1460), nil, ends4(ipv4{}))}.frame(),
		"signed":                extended(ah, make([]byte, 16)).frame(),
		"by a route":            extended(43, make([]byte, 16)).frame(),
		"cut short":             syn4(syn, mss(1460))[:14+20+22],
		"tagged":                append(append(slices.Clone(syn4(syn, mss(1460))[:12]), 0x81, 0, 0, 7), syn4(syn, mss(1460))[12:]...),
	} {
		t.Run(name, func(t *testing.T) {
			if out := b.passes(frame); !bytes.Equal(out, frame) {
				t.Errorf("%x became %x", frame, out)
			}
		})
	}
}

// answered returns what the program has passed to user space since the last call, or nil.
func (b *bench) answered() []byte {
	b.t.Helper()
	reader, err := ringbuf.NewReader(b.objects.Told)
	if err != nil {
		b.t.Fatal(err)
	}
	defer reader.Close()
	reader.SetDeadline(time.Now())
	record, err := reader.Read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return record.RawSample
}

func TestSenderOfALongPacketGetsPacketTooBig(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest, LongestBytes: 1500})
	for name, frame := range map[string][]byte{
		"IPv4":                     ipv4{flags: dontFragment, protocol: udp, payload: make([]byte, largest-20+1)}.frame(),
		"that might be fragmented": ipv4{protocol: tcp, payload: make([]byte, 1480)}.frame(),
		"a first fragment":         ipv4{flags: 0x2000, protocol: udp, payload: make([]byte, 1480)}.frame(),
		"a ping":                   ipv4{protocol: icmp, payload: append([]byte{8}, make([]byte, 1400)...)}.frame(),
		"IPv6":                     ipv6{next: udp, payload: make([]byte, largest-40+1)}.frame(),
		"a ping of IPv6":           ipv6{next: icmpv6, payload: append([]byte{128}, make([]byte, 1400)...)}.frame(),
		"IPv6's first fragment":    ipv6{next: 44, payload: append([]byte{udp, 0, 0, 1}, make([]byte, 1400)...)}.frame(),
	} {
		t.Run(name, func(t *testing.T) {
			if verdict, _ := b.shown(frame); verdict != dropped {
				t.Fatalf("verdict %d, expected that it ends", verdict)
			}
			device, answer := answerTo(b.answered())
			if device != loDev {
				t.Errorf("by device %d, expected %d", device, loDev)
			}
			packet := answer[14:]
			if !bytes.Equal(answer[:6], frame[6:12]) || !bytes.Equal(answer[6:12], frame[:6]) || !bytes.Equal(answer[12:14], frame[12:14]) {
				t.Fatalf("%x is not back to its sender", answer[:14])
			}
			if frame[12] == 0x86 {
				if len(packet) != 1280 || packet[40] != 2 || binary.BigEndian.Uint32(packet[44:]) != largest ||
					!bytes.Equal(packet[48:], frame[14:14+1232]) || !bytes.Equal(packet[24:40], frame[22:38]) {
					t.Errorf("%x", packet)
				}
				if sum(packet[8:40], pseudo(icmpv6, len(packet)-40), packet[40:]) != 0xffff {
					t.Errorf("a wrong checksum in %x", packet[:48])
				}
				return
			}
			if len(packet) != 576 || packet[20] != 3 || packet[21] != 4 || binary.BigEndian.Uint16(packet[26:]) != largest ||
				!bytes.Equal(packet[28:], frame[14:14+548]) || !bytes.Equal(packet[16:20], frame[26:30]) {
				t.Errorf("%x", packet)
			}
			if sum(packet[:20]) != 0xffff || sum(packet[20:]) != 0xffff {
				t.Errorf("a wrong checksum in %x", packet[:28])
			}
		})
	}
}

func TestErrorsAndMulticastGetNoAnswer(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest, LongestBytes: 1500})
	data := make([]byte, 1400)
	grouped, broken := ipv4{protocol: udp, payload: data}.frame(), ipv4{protocol: udp, payload: data}.frame()
	grouped[0] |= 1
	broken[24]++
	cases := map[string][]byte{
		"just as long": ipv4{protocol: udp, payload: data[:largest-20]}.frame(), "just as long, IPv6": ipv6{next: udp, payload: data[:largest-40]}.frame(),
		"a later fragment": ipv4{flags: 1, protocol: udp, payload: data}.frame(), "to several": grouped,
		"a header that does not add up": broken, "cut short": ipv4{protocol: udp, payload: data}.frame()[:1380],
		"longer than its wire carries": ipv4{protocol: tcp, payload: make([]byte, 1500)}.frame(),
		"IPv6's later fragment":        ipv6{next: 44, payload: append([]byte{udp, 0, 1, 1}, data...)}.frame(),
		"IPv6 of unknown depth":        ipv6{next: 0, payload: data}.frame(),
		"no IP":                        ethernet(0x88b5, data),
		"IPv6's error":                 ipv6{next: icmpv6, payload: append([]byte{2}, data...)}.frame(),
		"IPv6's redirect":              ipv6{next: icmpv6, payload: append([]byte{137}, data...)}.frame(),
		"its error behind a header":    ipv6{next: 60, payload: append([]byte{icmpv6, 0, 0, 0, 0, 0, 0, 0, 1}, data...)}.frame(),
	}
	for _, kind := range []byte{3, 4, 5, 11, 12} {
		cases[fmt.Sprintf("ICMP's error %d", kind)] = ipv4{protocol: icmp, payload: append([]byte{kind}, data...)}.frame()
	}
	for _, odd := range [][4]byte{{0, 0, 0, 1}, {127, 0, 0, 1}, {224, 0, 0, 1}, {255, 255, 255, 255}, {169, 254, 1, 1}} {
		cases[fmt.Sprint("from ", odd)] = ipv4{protocol: udp, payload: data, from: odd}.frame()
		cases[fmt.Sprint("to ", odd)] = ipv4{protocol: udp, payload: data, to: odd}.frame()
	}
	for _, odd := range [][16]byte{{15: 1}, {0xff, 2, 15: 1}, {0xfe, 0x80, 15: 1}, {0xfe, 0xbf, 15: 1}} {
		cases[fmt.Sprintf("from %x", odd)] = ipv6{next: udp, payload: data, from: odd}.frame()
		cases[fmt.Sprintf("to %x", odd)] = ipv6{next: udp, payload: data, to: odd}.frame()
	}
	nowhere := ipv6{next: udp, payload: data}.frame()
	clear(nowhere[22:38])
	cases["from ::"] = nowhere
	for name, frame := range cases {
		t.Run(name, func(t *testing.T) {
			if out := b.passes(frame); !bytes.Equal(out, frame) || b.answered() != nil {
				t.Errorf("expected that it passes unchanged and without an answer")
			}
		})
	}
}

func TestIPv6AnswerAnnouncesAtLeast1280(t *testing.T) {
	b := newBench(t, port{LargestBytes: 1000, LongestBytes: 1500})
	b.passes(ipv6{next: udp, payload: make([]byte, 1240)}.frame())
	verdict, _ := b.shown(ipv6{next: udp, payload: make([]byte, 1241)}.frame())
	_, answer := answerTo(b.answered())
	if answered := binary.BigEndian.Uint32(answer[14+44:]); verdict != dropped || answered != 1280 {
		t.Errorf("verdict %d, answered %d, expected 1280", verdict, answered)
	}
}

func TestRateOfAnswersIsLimited(t *testing.T) {
	b := newBench(t, port{LargestBytes: largest, LongestBytes: 1500})
	frame := ipv4{protocol: udp, payload: make([]byte, 1480)}.frame()
	begun := time.Now()
	const flood = 2000
	for range flood {
		if verdict, _ := b.shown(frame); verdict != dropped {
			t.Fatalf("verdict %d, expected that it ends", verdict)
		}
	}
	most, answered := 102+int(time.Since(begun)/time.Millisecond), 0
	for b.answered() != nil {
		answered++
	}
	if answered < 100 || answered > min(most, flood) {
		t.Errorf("%d answers, expected 100 at once and then one each millisecond, at most %d", answered, most)
	}
}
