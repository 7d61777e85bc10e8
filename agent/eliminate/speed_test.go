package eliminate

import (
	"testing"
)

// What the program itself costs a packet, without what brings it: the kernel's own measure.
func BenchmarkAPacket(b *testing.B) {
	for name, frame := range map[string][]byte{
		"64 bytes, UDP": numbered(1).frame(), "1400 bytes, opaque": func() []byte {
			p := numbered(1)
			p.protocol, p.payload = esp, make([]byte, 1400)
			return p.frame()
		}(),
	} {
		b.Run(name, func(b *testing.B) {
			e, err := Load(1024)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			if err := e.objects.Places.Put(place{1, noVNI}, uint32(0)); err != nil { // lo, where it is shown
				b.Fatal(err)
			}
			if err := e.Renew(1<<40, 1<<40); err != nil {
				b.Fatal(err)
			}
			_, took, err := e.objects.Program.Benchmark(frame, 1_000_000, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
		})
	}
}
