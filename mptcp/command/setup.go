// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"bicast/mptcp/tune"
)

var setup = &verb{
	name: "setup", form: "setup [--interface A,B] [--backup B] [--undo] [--dry-run] [--state FILE] [--netns NAME]",
	summary: "set what makes MPTCP leave a dead path fast, or put it back (--undo)",
	teach: `Sets the sysctls, limits and endpoints that make failover fast, and prints each with what it was before:

  stale_loss_cnt 1       a path without progress is left after one timeout (about 0.15 s) and not after four (0.9 s)
  blackhole_timeout 0    one swallowed SYN does not make every new connection plain TCP for an hour
  add_addr_timeout 2     a lost announcement of an address is repeated after 2 s and not after 120
  checksum_enabled 0     no checksum over every byte, unless the other end asks for it
  limits 8 and 8         as many subflows, and announced addresses taken up, as the kernel can
  an endpoint each       for every address of every interface that is up, so that connections open a path from it

stale_loss_cnt works in the namespace of whoever SENDS: set it up at both ends. The endpoints are the kernel's path
manager's. A connection that lives now and began from an address that becomes an endpoint may open a second subflow
from it. What was there before is kept in a file, and --undo puts it back; what has been changed since, by switch
too, stays. So does an endpoint without which a live connection would have no path: --undo again when that has ended.
--dry-run prints what either would change, and changes nothing. Where /run cannot be written, as on a phone, give
--state a FILE in a directory that can.
`,
	options: func(s *session, flags *flag.FlagSet) {
		flags.StringVar(&s.only, "interface", "", "endpoints for these interfaces alone, as `A,B`")
		flags.StringVar(&s.backup, "backup", "", "the endpoints of these interfaces, as `A,B`, are backup")
		flags.BoolVar(&s.undo, "undo", false, "put back what was there before")
		flags.BoolVar(&s.dryRun, "dry-run", false, "print what would be changed, and change nothing")
		flags.StringVar(&s.stateFile, "state", "", "the `FILE` of what was there before (/run/bicast/mptcp-NAMESPACE.json)")
	},
	run: runSetup,
}

func runSetup(s *session, words []string) error {
	if len(words) > 0 {
		return s.misused("%q is one word too many", words[0])
	}
	file := s.stateFile
	if file == "" {
		var err error
		if file, err = tune.DefaultState(s.handle); err != nil {
			return err
		}
	}
	if s.undo {
		steps, err := tune.Undo(s.handle, file, s.dryRun)
		s.tellSteps(steps)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("there is nothing to undo: %s is not there; if `setup` was given --netns "+
				"or --state, give the same here", file)
		}
		return err
	}
	steps, err := tune.Apply(s.handle, file, names(s.only), names(s.backup), s.dryRun)
	s.tellSteps(steps)
	if err == nil && !s.dryRun {
		fmt.Fprintf(s.out, "`%s` puts it back, from %s\n", s.undoing(), file)
	}
	return err
}

// undoing is the command that undoes this one.
func (s *session) undoing() string {
	words := "bicast mptcp setup --undo"
	if s.stateFile != "" {
		words += " --state " + s.stateFile
	}
	if s.netns != "" {
		words += " --netns " + s.netns
	}
	return words
}

// deleting is the command that deletes an endpoint of our namespace.
func (s *session) deleting(id uint8) string {
	words := fmt.Sprintf("ip mptcp endpoint del id %d", id)
	switch {
	case s.netns == "":
		return words
	case strings.Contains(s.netns, "/"):
		return "nsenter --net=" + s.netns + " " + words
	default:
		return "ip netns exec " + s.netns + " " + words
	}
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func (s *session) tellSteps(steps []tune.Step) {
	for _, step := range steps {
		switch {
		case step.Changed() && s.dryRun:
			fmt.Fprintf(s.out, "would change  %s: %s (is: %s)\n", step.Name, step.Is, step.Was)
		case step.Changed():
			fmt.Fprintf(s.out, "changed  %s: %s (was: %s)\n", step.Name, step.Is, step.Was)
		case step.Endpoint != 0:
			fmt.Fprintf(s.out, "left     %s: %s (%s; `%s` removes it)\n", step.Name, step.Is, step.Why, s.deleting(step.Endpoint))
		case step.Why != "":
			fmt.Fprintf(s.out, "left     %s: %s (%s)\n", step.Name, step.Is, step.Why)
		default:
			fmt.Fprintf(s.out, "right    %s: %s\n", step.Name, step.Is)
		}
	}
}
