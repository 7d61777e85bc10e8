package clamp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"bicast/agent/capping"
)

// longDead is how long an agent has been killed before any other takes its program away: also that of a namespace which is
// gone, where no agent will ever start. What such a program held is free by then.
const longDead = 10 * time.Minute

// leftover is the program of an agent that was killed; it still lifts what that held.
type leftover struct {
	program  *ebpf.Program
	holdings *ebpf.Map // what it remembers of sockets
}

func (l leftover) close() error { return errors.Join(l.program.Close(), l.holdings.Close()) }

func closed(all []leftover) (err error) {
	for _, each := range all {
		err = errors.Join(err, each.close())
	}
	return err
}

func (l leftover) detach(root *os.File) error {
	defer l.close()
	err := link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: int(root.Fd()), Program: l.program, Attach: ebpf.AttachCGroupSockOps,
	})
	if err != nil {
		return fmt.Errorf("a killed agent's program %s cannot be taken away: %w", called, err)
	}
	return nil
}

// leftovers are to be looked for by who has the claim: then nobody living has programs for this namespace. `ours` are
// its own, `dead` those of elsewhere that nobody tends.
func leftovers(root *os.File, netns uint64) (ours, dead []leftover, err error) {
	now, err := capping.Clock()
	if err != nil {
		return nil, nil, err
	}
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(root.Fd()), Attach: ebpf.AttachCGroupSockOps})
	if err != nil {
		return nil, nil, fmt.Errorf("who is at the root of cgroups cannot be seen: %w", err)
	}
	for _, each := range attached.Programs {
		one, settings, found := look(each.ID)
		switch {
		case !found:
		case settings.Netns == netns:
			ours = append(ours, one)
		case time.Duration(settings.TendedUntilNS)+longDead < now:
			dead = append(dead, one)
		default:
			one.close()
		}
	}
	return ours, dead, nil
}

// look tells what a program is; it may also be gone again.
func look(id ebpf.ProgramID) (one leftover, settings capping.Settings, ours bool) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return one, settings, false
	}
	defer func() {
		if !ours {
			program.Close()
		}
	}()
	info, err := program.Info()
	if err != nil || info.Name != called {
		return one, settings, false
	}
	numbers, _ := info.MapIDs()
	for _, number := range numbers {
		table, err := ebpf.NewMapFromID(number)
		if err != nil {
			continue
		}
		description, err := table.Info()
		switch {
		case err == nil && description.Name == "holdings":
			one.holdings = table
			continue
		case err == nil && description.Name == "settings":
			ours = table.Lookup(uint32(0), &settings) == nil
		}
		table.Close()
	}
	one.program = program
	ours = ours && one.holdings != nil
	return one, settings, ours
}
