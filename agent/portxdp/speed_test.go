// SPDX-License-Identifier: Apache-2.0

package portxdp

import "testing"

// BenchmarkAPacket measures the program's time per packet with BPF_PROG_TEST_RUN.
func BenchmarkAPacket(b *testing.B) {
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"IPv6", ipv6{next: udp, payload: make([]byte, 1000)}.frame()},
		{"UDP", numbered().frame()},
		{"TCP that its sender has numbered", ipv4{id: 7, protocol: tcp, flags: dontFragment, payload: make([]byte, 1000)}.frame()},
	} {
		b.Run(c.name, func(b *testing.B) {
			shows := newBench(b, port{Number: 1})
			_, took, err := shows.objects.Program.Benchmark(c.frame, 1_000_000, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}
