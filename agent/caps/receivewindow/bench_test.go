// SPDX-License-Identifier: Apache-2.0

package receivewindow

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"bicast/internal/clock"
	"bicast/internal/lab"
)

// BenchmarkAPacket measures the program's time per packet with BPF_PROG_TEST_RUN. All repetitions process the same buffer, so
// only the first lowers the window.
func BenchmarkAPacket(b *testing.B) {
	shown := newBench(b)
	shown.cap(most)
	options := join(usual, stamps(1, 1))
	shown.handshake(options, options)
	s := ackOf(0, 4000)
	s.options = join(none, none, stamps(1, 1))
	s.from, s.fromPort, s.into, s.intoPort = other4, otherPort, terminal4, terminalPort
	told := s.frame()
	s.from, s.fromPort, s.into, s.intoPort = terminal4, terminalPort, other4, otherPort
	s.payload = 1400
	for name, c := range map[string]struct {
		program *ebpf.Program
		frame   []byte
	}{"to the terminal": {shown.objects.Lower, told}, "from the terminal": {shown.objects.Watch, s.frame()}} {
		b.Run(name, func(b *testing.B) {
			_, took, err := c.program.Benchmark(c.frame, 1_000_000, nil)
			shown.must(err)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReport measures a report with full maps.
func BenchmarkReport(b *testing.B) {
	shown := newBench(b)
	for n := range 1 << 14 {
		e := shown.ends()
		binary.BigEndian.PutUint16(e.TerminalPort[:], uint16(n))
		shown.must(shown.objects.Flows.Put(e, flow{SeenNS: uint64(clock.Monotonic())}))
	}
	for b.Loop() {
		_, _, err := shown.passing()
		shown.must(err)
	}
}

// BenchmarkGoodput measures the effect of the programs on one upload whose rate the processors limit. The programs are attached
// and detached in turns. They process every packet and lower every window, to a value above the data in flight.
func BenchmarkGoodput(b *testing.B) {
	for name, offloads := range map[string]string{"with offloads": "on", "packet by packet": "off"} {
		b.Run(name, func(b *testing.B) {
			h := newHouse(b)
			for _, each := range []struct {
				host   *lab.Host
				device string
			}{{h.phone, "wifi"}, {h.gateway, "wifi"}, {h.gateway, "wan"}, {h.server, "wan"}} {
				each.host.Run("ethtool", "-K", each.device, "tso", offloads, "gso", offloads, "gro", offloads)
			}
			h.order(capped(1500, lasting))
			conn := h.upload(h.sink(service, false), false)
			h.moves(0)
			var with, missingPorts, ratios []float64
			for range max(b.N, 100) {
				h.order(capped(1500, lasting))
				h.gateway.Do(func() error { return h.executor.ports.ensure("wifi") })
				with = append(with, h.goodput(conn))
				h.gateway.Do(func() error { return h.executor.ports.leave("wifi") })
				missingPorts = append(missingPorts, h.goodput(conn))
				ratios = append(ratios, with[len(with)-1]/missingPorts[len(missingPorts)-1])
			}
			b.ReportMetric(mean(with), "with-Mbit/s")
			b.ReportMetric(mean(missingPorts), "without-Mbit/s")
			b.ReportMetric(mean(with)/mean(missingPorts), "ratio-of-means")
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// goodput measures after the packets in flight from the previous turn have passed.
func (h *house) goodput(conn net.Conn) (mbps float64) {
	time.Sleep(10 * time.Millisecond)
	begun, before := time.Now(), h.info(conn).Bytes_acked
	time.Sleep(60 * time.Millisecond)
	return float64(h.info(conn).Bytes_acked-before) * 8 / float64(time.Since(begun).Microseconds())
}

func mean(of []float64) (mean float64) {
	for _, each := range of {
		mean += each / float64(len(of))
	}
	return mean
}
