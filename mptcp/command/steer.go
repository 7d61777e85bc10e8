// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"bicast/mptcp"
)

// Time limit for a new subflow: a SYN and three retransmissions.
const joinTimeout = 10 * time.Second

// Descriptions of CONN and PATH, shared by the verbs that steer.
const (
	connHelp = "CONN is a connection's token, as list shows it (8 hex digits).\n"
	pathHelp = "PATH is our address, an interface of ours, or the other end's address. ADDRESS:PORT, as list shows it, " +
		"distinguishes\npaths that share these.\n"
)

var monitor = &verb{
	name: "monitor", form: "monitor [--netns NAME]",
	summary: "print events of connections as JSON lines until Ctrl-C",
	description: `Prints the kernel's events, one JSON object per line: connections created, established and closed, addresses announced and
removed by peers, subflows established and closed, and priorities that a PEER changed. Our own switches cause no events.
"error" and "reset_reason" say why a subflow closed, if the kernel reports it; an orderly close has no reason. Listening
sockets are reported on kernels that do so. "event_0" means that events were lost because this reader was too slow. Fields
that a kind of event lacks are left out. While monitor runs, connections under the userspace path manager accept joins.
`,
	run: runMonitor,
}

var switchVerb = &verb{
	name: "switch", form: "switch CONN|--pid PID|--all PATH [--hard] [--netns NAME]",
	summary: "move connections to another of their paths",
	description: `Makes PATH the active path of a connection and the others backup. It clears PATH's flag before it sets the others', so
that a path is active at every moment and nothing is lost. The peer is notified (MP_PRIO) and follows: both directions
move. Data queued on the old path drains there.

` + connHelp + pathHelp + `If PATH matches several paths but not all, all of these become active; if it matches all of several, nothing changes.

--hard is for a dead old path: it closes its subflows, and the kernel retransmits their data in flight on PATH.

Under the userspace path manager one connection moves. The kernel's path manager handles addresses of ours, not
connections: every connection of the namespace with these addresses moves, and new ones start the same way. The output
says how many. list shows the path manager of each connection.
`,
	options: func(s *session, flags *flag.FlagSet) {
		flags.IntVar(&s.pid, "pid", 0, "every connection of the process `PID`")
		flags.BoolVar(&s.all, "all", false, "every connection that has such a path")
		flags.BoolVar(&s.hard, "hard", false, "close the subflows of the old path, which is dead")
	},
	run: runSwitch,
}

var add = &verb{
	name: "add", form: "add CONN ADDRESS [REMOTE] [--netns NAME]",
	summary: "open another path for a connection, and wait until it is established",
	description: `Opens a subflow from our ADDRESS to the address and port that the connection was made to, or to REMOTE (ADDRESS:PORT). It
waits until the subflow is established, for at most 10 s. If that fails, and on Ctrl-C, it undoes the attempt and says
why. The new path is active at once.

` + connHelp + `ADDRESS must be an address of this namespace, of the other end's family.

Under the kernel's path manager ADDRESS becomes an endpoint bound to its interface: every connection of the namespace
opens a subflow from it, and the kernel chooses the remote address. An existing endpoint that opened nothing becomes one
that opens subflows. If it was backup, it stays backup, and so is the path.
`,
	run: runAdd,
}

var remove = &verb{
	name: "remove", form: "remove CONN PATH [--netns NAME]",
	summary: "close one path of a connection",
	description: `Closes the subflow on PATH; the kernel retransmits its data in flight on the others. A connection's only subflow stays.

` + connHelp + pathHelp + `If PATH matches several paths, nothing changes.

Under the kernel's path manager this deletes the endpoint and closes every subflow of the namespace from that address.
`,
	run: runRemove,
}

func runMonitor(s *session, words []string) error {
	if len(words) > 0 {
		return s.usageError("unexpected argument %q", words[0])
	}
	events, err := s.handle.Events(context.Background())
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(s.out)
	for event := range events {
		if err := encoder.Encode(eventAsJSON(event)); err != nil {
			return err
		}
	}
	return errors.New("the kernel closed the event stream: run monitor again")
}

func runSwitch(s *session, words []string) error {
	selected, word, err := s.selectToSwitch(words)
	if err != nil {
		return err
	}
	to, err := s.path(word)
	if err != nil {
		return err
	}
	var orders []mptcp.SubflowPreference
	unclear := ""
	for _, c := range selected {
		by, others := to.split(c.Connection)
		switch {
		case len(by) > 1 && len(others) == 0:
			if unclear = to.ambiguous(c.Connection, by); len(selected) > 1 {
				fmt.Fprintf(s.out, "left: %s\n", unclear)
			}
		case len(by) > 0:
			orders = append(orders, mptcp.SubflowPreference{Connection: c.Connection, Wanted: by, Others: others})
		case len(selected) == 1:
			return to.missing(c.Connection)
		default:
			fmt.Fprintf(s.out, "left: %v has no subflow by %s\n", c.Connection, word)
		}
	}
	if len(selected) == 0 && s.pid != 0 {
		return &mptcp.Error{Kind: mptcp.NoPath, What: s.emptyText(), Advice: "`bicast mptcp list`"}
	}
	if len(orders) == 0 && unclear != "" {
		return s.usageError("%s", unclear)
	}
	if len(orders) == 0 {
		return &mptcp.Error{Kind: mptcp.NoPath, What: "no connection has a subflow by " + word, Advice: "`bicast mptcp list`"}
	}
	change, err := s.handle.PreferAll(orders, s.hard)
	s.printChange(change)
	if err == nil && len(change.Did) == 0 {
		fmt.Fprintf(s.out, "nothing to change: %s\n", alreadyText(orders, word))
	}
	return err
}

// alreadyText describes the state before a switch that had nothing to do.
func alreadyText(orders []mptcp.SubflowPreference, word string) string {
	if len(orders) > 1 {
		return fmt.Sprintf("%d connections go by %s already", len(orders), word)
	}
	return fmt.Sprintf("%v goes by %s already", orders[0].Connection, word)
}

func (s *session) selectToSwitch(words []string) (selected []ownedConnection, path string, err error) {
	if s.all || s.pid != 0 {
		if len(words) != 1 || s.all && s.pid != 0 {
			return nil, "", s.usageError("expected one PATH, and one of CONN, --pid and --all")
		}
		all, err := s.selected(false)
		return all, words[0], err
	}
	if len(words) != 2 {
		return nil, "", s.usageError("expected one CONN and one PATH")
	}
	connection, err := s.connection(words[0])
	return []ownedConnection{connection}, words[1], err
}

func runAdd(s *session, words []string) error {
	if len(words) != 2 && len(words) != 3 {
		return s.usageError("expected CONN and an address of ours")
	}
	c, err := s.connection(words[0])
	if err != nil {
		return err
	}
	local, err := netip.ParseAddr(words[1])
	if err != nil {
		return s.usageError("%q is no address", words[1])
	}
	remote := c.Remote()
	if len(words) == 3 {
		if remote, err = netip.ParseAddrPort(words[2]); err != nil {
			return s.usageError("%q is no ADDRESS:PORT", words[2])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	change, err := s.handle.AddSubflow(ctx, c.Connection, local, remote)
	s.printChange(change)
	return err
}

func runRemove(s *session, words []string) error {
	if len(words) != 2 {
		return s.usageError("expected CONN and PATH")
	}
	c, err := s.connection(words[0])
	if err != nil {
		return err
	}
	by, err := s.path(words[1])
	if err != nil {
		return err
	}
	closing, _ := by.split(c.Connection)
	if len(closing) == 0 {
		return by.missing(c.Connection)
	}
	if len(closing) > 1 {
		return s.usageError("%s", by.ambiguous(c.Connection, closing))
	}
	change, err := s.handle.RemoveSubflow(c.Connection, closing[0])
	s.printChange(change)
	return err
}

func (s *session) printChange(change mptcp.Change) {
	for _, sentence := range change.Did {
		fmt.Fprintln(s.out, sentence)
	}
}
