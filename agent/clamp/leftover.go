package clamp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"bicast/agent/capping"
)

// longDead is how long an agent has been killed before any other takes its program away: also that of a namespace which is
// gone, where no agent will ever start. What such a program held is free by then.
const longDead = 10 * time.Minute

// left is what killed agents have at the root of cgroups.
type left struct {
	ours   []leftover // of this namespace
	dead   []leftover // of elsewhere, and nobody has tended it for long
	unseen int        // programs that this process may not look at
}

// leftover is the program of an agent that was killed; it still lifts what that held.
type leftover struct {
	program  *ebpf.Program
	holdings *ebpf.Map // what it remembers of sockets
}

// leftovers are to be looked for by who has the claim: then nobody living has programs for this namespace.
func leftovers(netns uint64) (*left, error) {
	now, err := capping.Clock()
	if err != nil {
		return nil, err
	}
	return leftAt(netns, now)
}

func leftAt(netns uint64, now time.Duration) (*left, error) {
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(root.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if err != nil {
		return nil, fmt.Errorf("who is at the root of cgroups cannot be asked: %w", err)
	}
	found := &left{}
	for _, each := range attached.Programs {
		program, err := ebpf.NewProgramFromID(each.ID)
		if errors.Is(err, unix.EPERM) {
			found.unseen++
		}
		if err != nil {
			continue // or it is gone again
		}
		found.take(program, netns, now)
	}
	return found, nil
}

// take keeps a program where it is one of these.
func (l *left) take(program *ebpf.Program, netns uint64, now time.Duration) {
	holdings, settings, err := look(program)
	one := leftover{program, holdings}
	switch {
	case err == nil && settings.Netns == netns:
		l.ours = append(l.ours, one)
	case err == nil && time.Duration(settings.TendedUntilNS)+longDead < now:
		l.dead = append(l.dead, one)
	default:
		one.close()
	}
}

// holdings are none where there is nothing to take over.
func (l *left) holdings() *ebpf.Map {
	if len(l.ours) == 0 {
		return nil
	}
	return l.ours[len(l.ours)-1].holdings
}

func (l *left) detach(root *os.File) error {
	for _, each := range append(l.ours, l.dead...) {
		err := link.RawDetachProgram(link.RawDetachProgramOptions{
			Target: int(root.Fd()), Program: each.program, Attach: ebpf.AttachCGroupSockOps,
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // another agent may have done it
			return fmt.Errorf("a killed agent's program %s cannot be taken away: %w", called, err)
		}
	}
	return nil
}

func (l *left) close() {
	for _, each := range append(l.ours, l.dead...) {
		each.close()
	}
}

func (l leftover) close() {
	l.program.Close()
	if l.holdings != nil {
		l.holdings.Close()
	}
}

var errStranger = errors.New("it is somebody else's program")

// look tells what a program of ours remembers, and for whom it was.
func look(program *ebpf.Program) (holdings *ebpf.Map, settings capping.Settings, err error) {
	info, err := program.Info()
	if err != nil {
		return nil, settings, err
	}
	if info.Name != called {
		return nil, settings, errStranger
	}
	err = errStranger
	numbers, _ := info.MapIDs()
	for _, number := range numbers {
		table, failed := ebpf.NewMapFromID(number)
		if failed != nil {
			continue
		}
		description, failed := table.Info()
		if failed == nil && description.Name == "holdings" && holdings == nil {
			holdings = table
			continue
		}
		if failed == nil && description.Name == "settings" {
			err = table.Lookup(uint32(0), &settings)
		}
		table.Close()
	}
	return holdings, settings, err
}
