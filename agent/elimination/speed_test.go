// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// The program's own cost per packet, as the kernel measures it.
func BenchmarkAPacket(b *testing.B) {
	for name, bytes := range map[string]int{"64 bytes": 18, "1400 bytes": 1354} {
		b.Run(name, func(b *testing.B) {
			e := loaded(b)
			if err := e.at(1, 0, own); err != nil { // lo, where it is shown
				b.Fatal(err)
			}
			_, took, err := e.objects.Program.Benchmark(datagram(bytes), 1_000_000, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
		})
	}
}

// The time that one processor needs to send and receive a packet over a veth, with the eliminator and with programs that
// give the same verdicts without inspection (`idle`). `pair` alternates first copies, which pass, and second ones. `copy`
// has second copies only: the cost of the program and the veth.
func BenchmarkSpeed(b *testing.B) {
	for _, mode := range []struct {
		name  string
		flags link.XDPAttachFlags
	}{{"native", link.XDPDriverMode}, {"generic", link.XDPGenericMode}} {
		for name, bytes := range map[string]int{"64 bytes": 18, "1400 bytes": 1354} {
			for _, room := range []int{ways * initialBuckets, identities} {
				b.Run(fmt.Sprintf("%s/%s/room %d", mode.name, name, room), func(b *testing.B) {
					road := newRoad(b, mode.flags, bytes, room)
					pass, drop, ours := road.idle[0], road.idle[1], road.e.objects.Program
					var pairIdle, pair, copyIdle, copied, pairRatio, copyRatio []float64
					for range max(b.N, 12) {
						var ns [4]float64
						for n, c := range []struct {
							programs [2]*ebpf.Program
							roads    [2]int
						}{{[2]*ebpf.Program{pass, drop}, [2]int{0, 1}}, {[2]*ebpf.Program{ours, ours}, [2]int{0, 1}},
							{[2]*ebpf.Program{ours, drop}, [2]int{0, 1}}, {[2]*ebpf.Program{pass, drop}, [2]int{1, 1}}} {
							ns[n] = road.takes(c.programs, c.roads)
						}
						copying := ns[3] + 2*(ns[1]-ns[2]) // every second packet is a copy
						pairIdle, pair = append(pairIdle, ns[0]), append(pair, ns[1])
						copyIdle, copied = append(copyIdle, ns[3]), append(copied, copying)
						pairRatio, copyRatio = append(pairRatio, ns[0]/ns[1]), append(copyRatio, ns[3]/copying)
					}
					road.judged()
					b.ReportMetric(1e3/median(pairIdle), "pair:idle-Mpps")
					b.ReportMetric(1e3/median(pair), "pair:Mpps")
					b.ReportMetric(median(pairRatio), "pair:ratio")
					b.ReportMetric(1e3/median(copyIdle), "copy:idle-Mpps")
					b.ReportMetric(1e3/median(copied), "copy:Mpps")
					b.ReportMetric(median(copyRatio), "copy:ratio")
					b.ReportMetric(float64(room/ways*int(road.e.objects.Seen.ValueSize()))/(1<<10), "KiB")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
