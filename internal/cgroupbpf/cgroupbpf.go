// SPDX-License-Identifier: Apache-2.0

// Package cgroupbpf attaches BPF programs to a cgroup without a link. They outlive an agent that is killed, give back what it
// held, and stay until the next agent, or `bicast-agent release`, detaches them.
package cgroupbpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// LongDead is how long an agent has been killed before any other takes its program away: also that of a namespace which is
// gone, where no agent will ever start. What such a program held is free by then, but for connections that were silent since.
const LongDead = 10 * time.Minute

const allowMulti = 1 << 1 // BPF_F_ALLOW_MULTI: others are there, too

// Attach puts a program behind those that stand there already.
func Attach(cgroup *os.File, program *ebpf.Program) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(cgroup.Fd()), Program: program, Attach: ebpf.AttachCGroupSockOps, Flags: allowMulti,
	})
}

// Detach takes a program away.
func Detach(cgroup *os.File, program *ebpf.Program) error {
	return link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: int(cgroup.Fd()), Program: program, Attach: ebpf.AttachCGroupSockOps,
	})
}

// Mounted is where the root of cgroups, version 2, is; empty: nowhere.
func Mounted() string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); slices.Contains(fields[2:3], "cgroup2") {
			return fields[1]
		}
	}
	return ""
}

// Found is who stands at a cgroup.
type Found struct {
	Programs []*Program // the oldest first
	Blind    bool       // there are programs at which this process may not look
}

// Find looks for programs by their name; the cgroup is to stay open as long as they are.
func Find(cgroup *os.File, called string) (*Found, error) {
	found := &Found{}
	there, err := query(cgroup)
	if errors.Is(err, unix.EPERM) {
		found.Blind = true
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("who is at the cgroup %s cannot be asked: %w", cgroup.Name(), err)
	}
	for _, each := range there.Programs {
		program, err := ebpf.NewProgramFromID(each.ID)
		if errors.Is(err, unix.EPERM) {
			found.Blind = true
		}
		if err != nil {
			continue // or it is gone again
		}
		if info, err := program.Info(); err == nil && info.Name == called {
			found.Programs = append(found.Programs, &Program{mapsOf(info), cgroup, program})
		} else {
			program.Close()
		}
	}
	return found, nil
}

// query asks again where a program was attached between the library's two questions: how many there are, and which.
func query(cgroup *os.File) (there *link.QueryResult, err error) {
	for range 16 {
		there, err = link.QueryPrograms(link.QueryOptions{Target: int(cgroup.Fd()), Attach: ebpf.AttachCGroupSockOps})
		if !errors.Is(err, unix.ENOSPC) {
			break
		}
	}
	return there, err
}

func mapsOf(info *ebpf.ProgramInfo) map[string]*ebpf.Map {
	named := map[string]*ebpf.Map{}
	numbers, _ := info.MapIDs()
	for _, number := range numbers {
		one, err := ebpf.NewMapFromID(number)
		if err != nil {
			continue
		}
		if info, err := one.Info(); err == nil && named[info.Name] == nil {
			named[info.Name] = one
		} else {
			one.Close()
		}
	}
	return named
}

// Keep forgets all others.
func (f *Found) Keep(which func(*Program) bool) {
	var kept []*Program
	for _, each := range f.Programs {
		if which(each) {
			kept = append(kept, each)
		} else {
			each.close()
		}
	}
	f.Programs = kept
}

// Left keeps those for a network namespace, and those of which nobody has heard for long. Another version's must stand until
// then: nothing but the program itself gives back what it held.
func (f *Found) Left(netns uint64, now time.Duration, whose func(*Program) (Whose, error)) {
	f.Keep(func(each *Program) bool {
		of, err := whose(each)
		return err == nil && (of.Netns == netns && !of.Strange || of.TendedUntil+LongDead < now)
	})
}

// Youngest is of a network namespace; nil: there is none.
func (f *Found) Youngest(netns uint64, whose func(*Program) (Whose, error)) (youngest *Program) {
	for _, each := range f.Programs {
		if of, err := whose(each); err == nil && of.Netns == netns {
			youngest = each
		}
	}
	return youngest
}

// TakeAway counts those that were still there.
func (f *Found) TakeAway() (gone int, err error) {
	for _, each := range f.Programs {
		switch err := Detach(each.cgroup, each.program); {
		case err == nil:
			gone++
		case !errors.Is(err, unix.ENOENT): // which another agent may have done
			return gone, fmt.Errorf("a killed agent's program cannot be taken away from the cgroup %s: %w", each.cgroup.Name(), err)
		}
	}
	return gone, nil
}

// Close lets go of what was found; it stands on.
func (f *Found) Close() { f.Keep(func(*Program) bool { return false }) }

// Program stands at a cgroup, whoever put it there.
type Program struct {
	Maps    map[string]*ebpf.Map // by their names
	cgroup  *os.File
	program *ebpf.Program
}

// Whose is the agent's that a program is, or was.
type Whose struct {
	Netns       uint64        // the cookie of the network namespace
	TendedUntil time.Duration // by the kernel's monotonic clock
	Strange     bool          // another version's: what it remembers of sockets cannot be read
}

// Read is of what the only entry of a map has.
func (p *Program) Read(called string, into any) error {
	table := p.Maps[called]
	if table == nil {
		return fmt.Errorf("it is somebody else's program: it has no map %s", called)
	}
	return table.Lookup(uint32(0), into)
}

// Has tells whether a map is as this version's.
func (p *Program) Has(called string, like *ebpf.MapSpec) bool {
	table := p.Maps[called]
	return table != nil && like.Compatible(table) == nil
}

func (p *Program) close() {
	p.program.Close()
	for _, each := range p.Maps {
		each.Close()
	}
}
