package eliminate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

const (
	liveFrames = 1 << 1  // BPF_F_TEST_XDP_LIVE_FRAMES: what the program redirects is really sent
	volley     = 1 << 13 // packets in a row
	processor  = 1       // of the sender and, as it is a veth's, of the receiver
)

// What the program itself costs a packet, without what brings it: the kernel's own measure.
func BenchmarkAPacket(b *testing.B) {
	for name, bytes := range map[string]int{"64 bytes": 18, "1400 bytes": 1354} {
		b.Run(name, func(b *testing.B) {
			e := loaded(b)
			if err := e.at(1, 0); err != nil { // lo, where it is shown
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

// Packets a second that one processor sends and receives over a veth, on which the eliminator stands, beside the same with a
// program that gives the same verdict without a look (`idle`).
func BenchmarkSpeed(b *testing.B) {
	for _, mode := range []struct {
		name  string
		flags link.XDPAttachFlags
	}{{"native", link.XDPDriverMode}, {"generic", link.XDPGenericMode}} {
		for name, bytes := range map[string]int{"64 bytes": 18, "1400 bytes": 1354} {
			b.Run(mode.name+"/"+name, func(b *testing.B) {
				road := newRoad(b, mode.flags, bytes)
				b.ResetTimer()
				var idle, ours [2][]float64 // of each path
				for range max(b.N, 12) {
					for path := range 2 {
						idle[path] = append(idle[path], road.rate(path, road.idle[path]))
						ours[path] = append(ours[path], road.rate(path, road.e.objects.Program))
					}
					road.numbered += 2 * volley
				}
				road.judged(uint64(len(ours[0])))
				for path, what := range []string{"first", "copy"} {
					idle, ours := slices.Max(idle[path]), slices.Max(ours[path]) // what else runs here makes them less
					b.ReportMetric(idle/1e6, what+":idle-Mpps")
					b.ReportMetric(ours/1e6, what+":Mpps")
					b.ReportMetric(ours/idle, what+":ratio")
				}
				b.ReportMetric(float64(identities*int(road.e.objects.Seen.ValueSize())/ways)/(1<<20), "MiB")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// Two veth pairs. All firsts come by the one and all copies by the other, numbered in what they carry.
type road struct {
	b         *testing.B
	far, host *lab.Host
	e         *Eliminator
	frame     []byte
	sender    *ebpf.Program
	next      *ebpf.Map // number and device of the next packet
	idle      [2]*ebpf.Program
	links     [2]link.Link
	from      [2]int // devices
	numbered  uint64
}

var roads = [2]string{"wifi", "lte"}

func newRoad(b *testing.B, flags link.XDPAttachFlags, bytes int) *road {
	b.Helper()
	r := &road{b: b, e: loaded(b), frame: datagram(bytes)}
	r.far, r.host = lab.Two(b)
	for _, host := range []*lab.Host{r.far, r.host} {
		for _, name := range roads {
			host.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "1")
		}
	}
	r.sends()
	r.idle = [2]*ebpf.Program{constant(b, passed), constant(b, dropped)}
	r.host.Do(func() error {
		for path, name := range roads {
			device, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			if err := r.e.at(uint32(device.Index), uint32(path)); err != nil {
				return err
			}
			options := link.XDPOptions{Program: r.idle[path], Interface: device.Index, Flags: flags}
			if r.links[path], err = link.AttachXDP(options); err != nil {
				return err
			}
		}
		return nil
	})
	b.Cleanup(func() {
		for _, each := range r.links {
			each.Close()
		}
	})
	for path, name := range roads { // veth takes redirected frames where it has NAPI, and without native XDP that is for GRO
		r.host.Run("ethtool", "-K", name, "gro", "on")
		r.far.Do(func() error {
			device, err := net.InterfaceByName(name)
			if err == nil {
				r.from[path] = device.Index
			}
			return err
		})
	}
	return r
}

// sends makes the program that numbers a packet and sends it.
func (r *road) sends() {
	var err error
	r.next, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	r.must(err)
	r.b.Cleanup(func() { r.next.Close() })
	r.sender, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, r.next.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "no"),
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 50),
		asm.JGT.Reg(asm.R4, asm.R3, "no"),
		asm.LoadMem(asm.R5, asm.R0, 0, asm.DWord),
		asm.StoreMem(asm.R2, 42, asm.R5, asm.DWord), // behind UDP's header
		asm.Add.Imm(asm.R5, 1),
		asm.StoreMem(asm.R0, 0, asm.R5, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("no"),
		asm.Return(),
	}})
	r.must(err)
	r.b.Cleanup(func() { r.sender.Close() })
}

// rate sends a volley to a path on which this program stands, and tells how many packets a second were judged. The sender's
// own beginning and end do not count: it is watched from another processor.
func (r *road) rate(path int, program *ebpf.Program) (perSecond float64) {
	r.must(r.links[path].Update(program))
	next := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, r.numbered), uint64(r.from[path]))
	r.must(r.next.Put(uint32(0), next))
	r.must(r.far.Try(func() error {
		before, err := arrived(roads[path])
		if err != nil {
			return err
		}
		sent := make(chan error)
		go func() { sent <- r.send() }()
		begun := time.Now()
		var first time.Time
		for already := 0; ; {
			asked := time.Now()
			now, err := arrived(roads[path])
			at := time.Now()
			switch now -= before; {
			case err != nil:
				return errors.Join(err, <-sent)
			case already == 0 && now > 0:
				first, already = asked, now
			case now >= volley:
				perSecond = float64(now-already) / at.Sub(first).Seconds()
				return <-sent
			case at.Sub(begun) > 10*time.Second:
				return errors.Join(fmt.Errorf("%d of %d packets arrived by %s", now, volley, roads[path]), <-sent)
			}
		}
	}))
	return perSecond
}

func (r *road) send() error {
	return r.far.Try(func() error {
		var only unix.CPUSet
		only.Set(min(processor, runtime.NumCPU()-1))
		if err := unix.SchedSetaffinity(0, &only); err != nil {
			return err
		}
		_, err := r.sender.Run(&ebpf.RunOptions{Data: r.frame, Repeat: volley, Flags: liveFrames})
		return err
	})
}

// arrived is what a veth counts as sent, of frames that were redirected to it: what its peer has taken in.
func arrived(device string) (packets int, err error) {
	table, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[0] == device+":" {
			return strconv.Atoi(fields[10])
		}
	}
	return 0, fmt.Errorf("there is no device %s", device)
}

// judged sees to it that what was measured is what was meant: all firsts passed and all copies ended.
func (r *road) judged(volleys uint64) {
	counters, err := r.e.Counters()
	r.must(err)
	all := volleys * volley
	forgotten := counters[0].Evicted + counters[1].Evicted // what was not, has been judged as it should
	if counters[0].First < all || counters[1].Eliminated+forgotten < all || forgotten > all/50 {
		r.b.Fatalf("%+v, expected %d firsts and as many copies", counters[:2], all)
	}
}

func (r *road) must(err error) {
	r.b.Helper()
	if err != nil {
		r.b.Fatal(err)
	}
}

func loaded(b *testing.B) *Eliminator {
	b.Helper()
	e, err := Load(identities)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	if err := e.Renew(time.Hour, time.Hour); err != nil {
		b.Fatal(err)
	}
	return e
}

func constant(b *testing.B, verdict int32) *ebpf.Program {
	b.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, verdict), asm.Return(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { program.Close() })
	return program
}

// datagram is UDP with so many bytes, on Ethernet without its check sequence.
func datagram(bytes int) []byte {
	p := numbered(1)
	p.payload = make([]byte, 8+bytes)
	copy(p.payload, []byte{0x30, 0x39, 0x30, 0x3a, byte((8 + bytes) >> 8), byte(8 + bytes)})
	return p.frame()
}
