// SPDX-License-Identifier: Apache-2.0

package elimination

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
	volley     = 1 << 14 // packets per run
	turn       = 1 << 9  // packets on one path before the other's turn
	processor  = 1       // of the sender, and thereby of the veth's receiver
)

// Two veth pairs. First copies arrive on one, `turn` in a row, then second copies on the other, with numbers in the payload.
type road struct {
	b         *testing.B
	far, host *lab.Host
	e         *Eliminator
	frame     []byte
	sender    *ebpf.Program
	next      *ebpf.Map // number of the next packet, and both devices
	idle      [2]*ebpf.Program
	links     [2]link.Link
	from      [2]int // devices
	sent      uint64
}

var roads = [2]string{"wifi", "lte"}

func newRoad(b *testing.B, flags link.XDPAttachFlags, bytes, room int) *road {
	b.Helper()
	r := &road{b: b, e: loaded(b), frame: datagram(bytes)}
	r.e.settings.BucketsMask = uint32(room/ways - 1)
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
			if err := r.e.at(uint32(device.Index), uint32(path), own); err != nil {
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

// sends returns a program that numbers a packet and sends it.
func (r *road) sends() {
	var err error
	r.next, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 24, MaxEntries: 1})
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
		asm.Mov.Reg(asm.R4, asm.R5),
		asm.Add.Imm(asm.R4, 1),
		asm.StoreMem(asm.R0, 0, asm.R4, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
		asm.Mov.Reg(asm.R4, asm.R5),
		asm.And.Imm(asm.R4, turn),
		asm.JEq.Imm(asm.R4, 0, "first"),
		asm.LoadMem(asm.R1, asm.R0, 16, asm.DWord),
		asm.And.Imm(asm.R5, ^turn).WithSymbol("first"), // a packet's number is its copy's
		asm.StoreMem(asm.R2, 42, asm.R5, asm.DWord),    // behind UDP's header
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("no"),
		asm.Return(),
	}})
	r.must(err)
	r.b.Cleanup(func() { r.sender.Close() })
}

var errLate = errors.New("the measuring thread was delayed")

// takes sends a volley in turns over roads with these programs, and returns the time per packet until the verdict. Another
// processor measures, so that the start and the end of the sender do not count.
func (r *road) takes(programs [2]*ebpf.Program, by [2]int) (ns float64) {
	for path, program := range programs {
		r.must(r.links[path].Update(program))
	}
	next := binary.NativeEndian.AppendUint64(nil, r.sent)
	for _, road := range by {
		next = binary.NativeEndian.AppendUint64(next, uint64(r.from[road]))
	}
	r.must(r.next.Put(uint32(0), next))
	r.sent += 4 * volley // an interrupted sender starts again
	err := r.far.Try(func() error {
		if err := undisturbed(1 - processor); err != nil {
			return err
		}
		before, err := arrived()
		if err != nil {
			return err
		}
		sent := make(chan error)
		go func() { sent <- r.send() }()
		begun := time.Now()
		var first time.Time
		for already := 0; ; {
			asked := time.Now()
			now, err := arrived()
			at := time.Now()
			switch now -= before; {
			case err != nil:
				return errors.Join(err, <-sent)
			case already == 0 && now > volley/2:
				if err := <-sent; err != nil {
					return err
				}
				return errLate
			case already == 0 && now > 0:
				first, already = asked, now
			case now >= volley:
				ns = float64(at.Sub(first)) / float64(now-already)
				return <-sent
			case at.Sub(begun) > 10*time.Second:
				return errors.Join(fmt.Errorf("%d of %d packets arrived", now, volley), <-sent)
			}
		}
	})
	if errors.Is(err, errLate) {
		return r.takes(programs, by)
	}
	r.must(err)
	return ns
}

func (r *road) send() error {
	return r.far.Try(func() error {
		if err := undisturbed(processor); err != nil {
			return err
		}
		_, err := r.sender.Run(&ebpf.RunOptions{Data: r.frame, Repeat: volley, Flags: liveFrames})
		return err
	})
}

// undisturbed pins the thread to a processor with a real-time priority.
func undisturbed(on int) error {
	var only unix.CPUSet
	only.Set(min(on, runtime.NumCPU()-1))
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return err
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// arrived returns the frames that the veths count as sent: their peers have received them.
func arrived() (packets int, err error) {
	table, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[0] == roads[0]+":" || fields[0] == roads[1]+":" {
			count, err := strconv.Atoi(fields[10])
			if err != nil {
				return 0, err
			}
			packets += count
		}
	}
	return packets, nil
}

// judged fails the benchmark unless the program eliminated most copies.
func (r *road) judged() {
	counters, err := r.e.Counters()
	r.must(err)
	if ended, passed := counters[1].Eliminated, counters[1].First+counters[1].Late+counters[1].Rogue; ended < 20*passed {
		r.b.Fatalf("%+v, expected copies by the second path", counters[:2])
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
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

// datagram returns a UDP frame of this length, without the Ethernet frame check sequence.
func datagram(bytes int) []byte {
	p := numbered(1)
	p.payload = make([]byte, 8+bytes)
	copy(p.payload, []byte{0x30, 0x39, 0x30, 0x3a, byte((8 + bytes) >> 8), byte(8 + bytes)})
	return p.frame()
}
