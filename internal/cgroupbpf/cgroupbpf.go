// SPDX-License-Identifier: Apache-2.0

// Package cgroupbpf attaches BPF programs to a cgroup without a link. They outlive a killed agent, release what it
// limited, and stay until the next agent, or `bicast-agent release`, detaches them.
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

// LongDead is the time after which any agent may detach a dead one's program. Its namespace may be gone, so that no
// agent will start there again. By then its sockets are released, except those silent since.
const LongDead = 10 * time.Minute

const allowMulti = 1 << 1 // BPF_F_ALLOW_MULTI: other programs stay attached

// Attach adds a program after those that are attached already.
func Attach(cgroup *os.File, program *ebpf.Program) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(cgroup.Fd()), Program: program, Attach: ebpf.AttachCGroupSockOps, Flags: allowMulti,
	})
}

// Detach removes a program.
func Detach(cgroup *os.File, program *ebpf.Program) error {
	return link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: int(cgroup.Fd()), Program: program, Attach: ebpf.AttachCGroupSockOps,
	})
}

// Mounted returns the mount point of the cgroup v2 hierarchy, or "".
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

// Found is the programs attached to a cgroup.
type Found struct {
	Programs []*Program // oldest first
	Blind    bool       // some programs may not be inspected
}

// Find finds programs by name. The cgroup must stay open as long as they are in use.
func Find(cgroup *os.File, called string) (*Found, error) {
	found := &Found{}
	there, err := query(cgroup)
	if errors.Is(err, unix.EPERM) {
		found.Blind = true
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the programs of the cgroup %s: %w", cgroup.Name(), err)
	}
	for _, each := range there.Programs {
		program, err := ebpf.NewProgramFromID(each.ID)
		if errors.Is(err, unix.EPERM) {
			found.Blind = true
		}
		if err != nil {
			continue // or it was detached meanwhile
		}
		if info, err := program.Info(); err == nil && info.Name == called {
			found.Programs = append(found.Programs, &Program{mapsOf(info), cgroup, program})
		} else {
			program.Close()
		}
	}
	return found, nil
}

// query retries if a program is attached between the library's two calls, for the count and the list.
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

// Keep closes all programs that `which` does not accept.
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

// Left keeps the programs of a network namespace, and those of long dead agents. A program of another version must stay
// until then: only the program itself releases what it limited.
func (f *Found) Left(netns uint64, now time.Duration, whose func(*Program) (Whose, error)) {
	f.Keep(func(each *Program) bool {
		of, err := whose(each)
		return err == nil && (of.Netns == netns && !of.Strange || of.TendedUntil+LongDead < now)
	})
}

// Youngest returns the newest program of a network namespace, or nil.
func (f *Found) Youngest(netns uint64, whose func(*Program) (Whose, error)) (youngest *Program) {
	for _, each := range f.Programs {
		if of, err := whose(each); err == nil && of.Netns == netns {
			youngest = each
		}
	}
	return youngest
}

// TakeAway detaches the programs and returns how many were still attached.
func (f *Found) TakeAway() (gone int, err error) {
	for _, each := range f.Programs {
		switch err := Detach(each.cgroup, each.program); {
		case err == nil:
			gone++
		case !errors.Is(err, unix.ENOENT): // another agent may have detached it
			return gone, fmt.Errorf("cannot detach a killed agent's program from the cgroup %s: %w", each.cgroup.Name(), err)
		}
	}
	return gone, nil
}

// Close closes the programs; they stay attached.
func (f *Found) Close() { f.Keep(func(*Program) bool { return false }) }

// Program is a program attached to a cgroup, by any agent.
type Program struct {
	Maps    map[string]*ebpf.Map // by name
	cgroup  *os.File
	program *ebpf.Program
}

// Whose identifies the agent of a program.
type Whose struct {
	Netns       uint64        // cookie of the network namespace
	TendedUntil time.Duration // monotonic clock of the kernel
	Strange     bool          // of another version: its socket state is unreadable
}

// Read reads the only entry of a map.
func (p *Program) Read(called string, into any) error {
	table := p.Maps[called]
	if table == nil {
		return fmt.Errorf("the program is not ours: it has no map %s", called)
	}
	return table.Lookup(uint32(0), into)
}

// Has reports whether a map has this version's layout.
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
