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

// How long a new subflow may take: a SYN and its three repetitions.
const joining = 10 * time.Second

// What the verbs that steer say of the words they take.
const (
	connTaught = "CONN is a connection's token, as list shows it (8 hex digits).\n"
	pathTaught = "PATH is our address, an interface of ours, or the other end's address; ADDRESS:PORT, as list shows it, tells " +
		"apart\nwhat shares these.\n"
)

var monitor = &verb{
	name: "monitor", form: "monitor [--netns NAME]",
	summary: "tell what happens to connections, one JSON line an event, until Ctrl-C",
	teach: `Prints what the kernel tells as it happens, one JSON object a line: connections created, established and closed, addresses
announced and removed by peers, subflows established and closed, and priorities that a PEER changed: our own switches are
no events here. Why a subflow closed ("error", "reset_reason") stands there only where the kernel tells it; an orderly close
has no reason. Listening sockets that begin and end are told where the kernel does. The event "event_0" says that some were
lost because this reader was too slow. Fields that an event of its kind does not have are left out. While it runs,
connections under the userspace path manager accept joins.
`,
	run: runMonitor,
}

var toSwitch = &verb{
	name: "switch", form: "switch CONN|--pid PID|--all PATH [--hard] [--netns NAME]",
	summary: "move connections to another of their paths",
	teach: `Makes PATH the active path of a connection, and the others backup: first PATH's flag is cleared, then the others'
are set, so that there is an active path at every moment and nothing is lost. The peer is told (MP_PRIO) and follows: both
directions move. What is queued on the old path drains there.

` + connTaught + pathTaught + `Where PATH matches several paths and not all, all of these become active; where it matches all of several, nothing is
done.

--hard is for an old path that is dead: its subflows are closed, and what is in flight there is sent again by PATH.

Under the userspace path manager one connection moves. The kernel's path manager knows no connections, only addresses
of ours: there every connection of the namespace that uses these addresses moves, and new ones begin so; it is said how
many. list shows which manager a connection is under.
`,
	options: func(s *session, flags *flag.FlagSet) {
		flags.IntVar(&s.pid, "pid", 0, "every connection of the process `PID`")
		flags.BoolVar(&s.all, "all", false, "every connection that has such a path")
		flags.BoolVar(&s.hard, "hard", false, "the old path is dead: close its subflows")
	},
	run: runSwitch,
}

var add = &verb{
	name: "add", form: "add CONN ADDRESS [REMOTE] [--netns NAME]",
	summary: "open one more path for a connection, and wait until it is established",
	teach: `Opens a subflow from our ADDRESS to the address and port that the connection was made to, or to REMOTE (ADDRESS:PORT), and
waits until it is established, for at most 10 s; else, and on Ctrl-C, it takes back what it did and tells why not. It is
active at once.

` + connTaught + `ADDRESS is one that this namespace has, of the same family as the other end's.

Under the kernel's path manager ADDRESS becomes an endpoint, bound to the interface that has it: every connection of the
namespace opens a subflow from it. REMOTE is the kernel's choice there. An endpoint that was there and opened nothing
becomes one that opens, and stays backup if it was: so does the path.
`,
	run: runAdd,
}

var remove = &verb{
	name: "remove", form: "remove CONN PATH [--netns NAME]",
	summary: "close one path of a connection",
	teach: `Closes the subflow by PATH; what is in flight there is sent again by the others. A connection's only subflow stays.

` + connTaught + pathTaught + `Where PATH matches several paths, nothing is done.

Under the kernel's path manager the endpoint goes, and with it every subflow of the namespace from that address.
`,
	run: runRemove,
}

func runMonitor(s *session, words []string) error {
	if len(words) > 0 {
		return s.misused("%q is one word too many", words[0])
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
	return errors.New("the kernel stopped telling events: start again")
}

func runSwitch(s *session, words []string) error {
	chosen, word, err := s.whatToSwitch(words)
	if err != nil {
		return err
	}
	to, err := s.path(word)
	if err != nil {
		return err
	}
	var orders []mptcp.SubflowPreference
	unclear := ""
	for _, c := range chosen {
		by, others := to.split(c.Connection)
		switch {
		case len(by) > 1 && len(others) == 0:
			if unclear = to.ambiguous(c.Connection, by); len(chosen) > 1 {
				fmt.Fprintf(s.out, "left: %s\n", unclear)
			}
		case len(by) > 0:
			orders = append(orders, mptcp.SubflowPreference{Connection: c.Connection, Wanted: by, Others: others})
		case len(chosen) == 1:
			return to.missing(c.Connection)
		default:
			fmt.Fprintf(s.out, "left: %v has no subflow by %s\n", c.Connection, word)
		}
	}
	if len(chosen) == 0 && s.pid != 0 {
		return &mptcp.Error{Kind: mptcp.NoPath, What: s.none(), Advice: "`bicast mptcp list`"}
	}
	if len(orders) == 0 && unclear != "" {
		return s.misused("%s", unclear)
	}
	if len(orders) == 0 {
		return &mptcp.Error{Kind: mptcp.NoPath, What: "no connection has a subflow by " + word, Advice: "`bicast mptcp list`"}
	}
	change, err := s.handle.PreferAll(orders, s.hard)
	s.tell(change)
	if err == nil && len(change.Did) == 0 {
		fmt.Fprintf(s.out, "nothing to change: %s\n", already(orders, word))
	}
	return err
}

// already is how things were before a switch that had nothing to do.
func already(orders []mptcp.SubflowPreference, word string) string {
	if len(orders) > 1 {
		return fmt.Sprintf("%d connections go by %s already", len(orders), word)
	}
	return fmt.Sprintf("%v goes by %s already", orders[0].Connection, word)
}

func (s *session) whatToSwitch(words []string) (chosen []listed, path string, err error) {
	if s.all || s.pid != 0 {
		if len(words) != 1 || s.all && s.pid != 0 {
			return nil, "", s.misused("expected one PATH, and one of CONN, --pid and --all")
		}
		all, err := s.chosen(false)
		return all, words[0], err
	}
	if len(words) != 2 {
		return nil, "", s.misused("expected one CONN and one PATH")
	}
	one, err := s.one(words[0])
	return []listed{one}, words[1], err
}

func runAdd(s *session, words []string) error {
	if len(words) != 2 && len(words) != 3 {
		return s.misused("expected CONN and an address of ours")
	}
	c, err := s.one(words[0])
	if err != nil {
		return err
	}
	local, err := netip.ParseAddr(words[1])
	if err != nil {
		return s.misused("%q is no address", words[1])
	}
	remote := c.Remote()
	if len(words) == 3 {
		if remote, err = netip.ParseAddrPort(words[2]); err != nil {
			return s.misused("%q is no ADDRESS:PORT", words[2])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, joining)
	defer cancel()
	change, err := s.handle.AddSubflow(ctx, c.Connection, local, remote)
	s.tell(change)
	return err
}

func runRemove(s *session, words []string) error {
	if len(words) != 2 {
		return s.misused("expected CONN and PATH")
	}
	c, err := s.one(words[0])
	if err != nil {
		return err
	}
	by, err := s.path(words[1])
	if err != nil {
		return err
	}
	going, _ := by.split(c.Connection)
	if len(going) == 0 {
		return by.missing(c.Connection)
	}
	if len(going) > 1 {
		return s.misused("%s", by.ambiguous(c.Connection, going))
	}
	change, err := s.handle.RemoveSubflow(c.Connection, going[0])
	s.tell(change)
	return err
}

func (s *session) tell(change mptcp.Change) {
	for _, sentence := range change.Did {
		fmt.Fprintln(s.out, sentence)
	}
}
