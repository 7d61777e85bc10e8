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
	summary: "make MPTCP leave a dead path fast, or undo that (--undo)",
	description: `Sets the sysctls, limits and endpoints that make failover fast, and prints each with its previous value:

  stale_loss_cnt 1       leave a path without progress after one timeout (about 0.15 s) instead of four (0.9 s)
  blackhole_timeout 0    a lost SYN does not make every new connection plain TCP for an hour
  add_addr_timeout 2     repeat a lost address announcement after 2 s instead of 120 s
  checksum_enabled 0     no checksum over the data, unless the other end requests it
  limits 8 and 8         subflows and announced addresses, the kernel's maximum
  an endpoint each       for every address of every interface that is up: connections open a path from it

stale_loss_cnt affects the SENDER: run setup at both ends. The endpoints belong to the kernel's path manager. A live
connection that started from an address which becomes an endpoint may open a second subflow from it. A file keeps the
previous values, and --undo restores them, except values that were changed since, by switch or otherwise. It also keeps
an endpoint that is the last path of a live connection: run --undo again after that has ended. --dry-run prints the
changes and makes none. If /run is not writable, as on a phone, give --state a FILE in a writable directory.
`,
	options: func(s *session, flags *flag.FlagSet) {
		flags.StringVar(&s.only, "interface", "", "make endpoints for these interfaces only, as `A,B`")
		flags.StringVar(&s.backup, "backup", "", "make the endpoints of these interfaces backup, as `A,B`")
		flags.BoolVar(&s.undo, "undo", false, "restore the previous values")
		flags.BoolVar(&s.dryRun, "dry-run", false, "print the changes and make none")
		flags.StringVar(&s.stateFile, "state", "", "the `FILE` with the previous values (/run/bicast/mptcp-NAMESPACE.json)")
	},
	run: runSetup,
}

func runSetup(s *session, words []string) error {
	if len(words) > 0 {
		return s.usageError("unexpected argument %q", words[0])
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
		s.printSteps(steps)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("there is nothing to undo: %s does not exist; if `setup` was given --netns "+
				"or --state, give the same here", file)
		}
		return err
	}
	steps, err := tune.Apply(s.handle, file, names(s.only), names(s.backup), s.dryRun)
	s.printSteps(steps)
	if err == nil && !s.dryRun {
		fmt.Fprintf(s.out, "`%s` restores the previous values from %s\n", s.undoCommand(), file)
	}
	return err
}

// undoCommand returns the command that undoes this run.
func (s *session) undoCommand() string {
	words := "bicast mptcp setup --undo"
	if s.stateFile != "" {
		words += " --state " + s.stateFile
	}
	if s.netns != "" {
		words += " --netns " + s.netns
	}
	return words
}

// deleteCommand returns the command that deletes an endpoint.
func (s *session) deleteCommand(id uint8) string {
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

func (s *session) printSteps(steps []tune.Step) {
	for _, step := range steps {
		switch {
		case step.Changed() && s.dryRun:
			fmt.Fprintf(s.out, "would change  %s: %s (is: %s)\n", step.Name, step.Is, step.Was)
		case step.Changed():
			fmt.Fprintf(s.out, "changed  %s: %s (was: %s)\n", step.Name, step.Is, step.Was)
		case step.Endpoint != 0:
			fmt.Fprintf(s.out, "left     %s: %s (%s; `%s` removes it)\n", step.Name, step.Is, step.Why, s.deleteCommand(step.Endpoint))
		case step.Why != "":
			fmt.Fprintf(s.out, "left     %s: %s (%s)\n", step.Name, step.Is, step.Why)
		default:
			fmt.Fprintf(s.out, "right    %s: %s\n", step.Name, step.Is)
		}
	}
}
