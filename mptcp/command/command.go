// SPDX-License-Identifier: Apache-2.0

// Package command implements `bicast mptcp`, with which people list and steer live MPTCP connections.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"bicast/mptcp"
)

// Exit codes. Codes from 10 on correspond to kinds of mptcp.Error.
const (
	OK      = 0
	Refused = 1
	Usage   = 2
)

var exitCodes = map[mptcp.Kind]int{
	mptcp.Refused: Refused, mptcp.Malformed: Refused,
	mptcp.NoMPTCP: 10, mptcp.NoRight: 11, mptcp.NoNamespace: 12, mptcp.Gone: 13, mptcp.Reused: 14, mptcp.NoPath: 15,
	mptcp.HeldByPeer: 16, mptcp.NotEstablished: 17, mptcp.WrongManager: 18, mptcp.Indistinguishable: 19,
	mptcp.LimitReached: 20,
}

// verb is a subcommand. Its --help prints description above the options.
type verb struct {
	name        string
	form        string
	summary     string
	description string
	run         func(*session, []string) error
	options     func(*session, *flag.FlagSet)
}

// session is one run of a verb.
type session struct {
	out    io.Writer
	handle *mptcp.Handle
	verb   *verb

	netns     string
	json      bool
	pid       int
	process   string
	all       bool
	hard      bool
	undo      bool
	dryRun    bool
	stateFile string
	only      string
	backup    string
}

func verbs() []*verb { return []*verb{list, watch, monitor, switchVerb, add, remove, setup} }

// Main runs one verb and returns the exit code.
func Main(arguments []string, out, errOut io.Writer) int {
	if len(arguments) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, arguments[0]) {
		fmt.Fprint(out, help())
		return OK
	}
	at := slices.IndexFunc(verbs(), func(v *verb) bool { return v.name == arguments[0] })
	if at < 0 {
		fmt.Fprintf(errOut, "bicast mptcp: there is no verb %q: see `bicast mptcp help`\n", arguments[0])
		return Usage
	}
	err := (&session{out: out, verb: verbs()[at]}).run(arguments[1:])
	if err == nil {
		return OK
	}
	if errors.Is(err, flag.ErrHelp) {
		return OK
	}
	fmt.Fprintf(errOut, "bicast mptcp: %v\n", err)
	return codeOf(err)
}

func (s *session) run(arguments []string) error {
	flags := flag.NewFlagSet(s.verb.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Main prints errors
	NamespaceOption(flags, &s.netns, "the network namespace: a `NAME` of `ip netns`, or a path such as /proc/PID/ns/net")
	if s.verb.options != nil {
		s.verb.options(s, flags)
	}
	words, err := parseInterspersed(flags, arguments)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(s.out, "usage: bicast mptcp %s\n\n%s\noptions:\n", s.verb.form, s.verb.description)
		PrintOptions(s.out, flags)
		return err
	}
	if err != nil {
		return s.usageError("%v", err)
	}
	if s.handle, err = mptcp.Open(s.netns); err != nil {
		return err
	}
	defer s.handle.Close()
	return s.verb.run(s, words)
}

// parseInterspersed allows options between and after the arguments, unlike Go's parser.
func parseInterspersed(flags *flag.FlagSet, arguments []string) ([]string, error) {
	var words []string
	for len(arguments) > 0 {
		if err := ParseOptions(flags, arguments); err != nil {
			return nil, err
		}
		arguments = flags.Args()
		if len(arguments) > 0 {
			words, arguments = append(words, arguments[0]), arguments[1:]
		}
	}
	return words, nil
}

// usageFailure is an error in the command line.
type usageFailure struct{ why string }

func (m usageFailure) Error() string { return m.why }

func (s *session) usageError(why string, values ...any) error {
	return usageFailure{fmt.Sprintf("%s: %s\nusage: bicast mptcp %s", s.verb.name, fmt.Sprintf(why, values...), s.verb.form)}
}

func codeOf(err error) int {
	var wrong usageFailure
	kind, ours := mptcp.KindOf(err)
	switch {
	case errors.As(err, &wrong):
		return Usage
	case ours:
		return exitCodes[kind]
	case errors.Is(err, fs.ErrPermission):
		return exitCodes[mptcp.NoRight]
	default:
		return Refused
	}
}

func help() string {
	var text strings.Builder
	text.WriteString(`usage: bicast mptcp VERB [ARGUMENT...]

List and steer the live MPTCP connections of this machine from outside their processes. This needs root, and no patch: an
unmodified kernel from 5.19 on.

verbs:
`)
	for _, v := range verbs() {
		fmt.Fprintf(&text, "  %-8s  %s\n", v.name, v.summary)
	}
	text.WriteString(`
words:
  CONN  a connection: its token, as list prints it (8 hex digits)
  PATH  one of its paths: our address, the other end's address, or the interface that has our address

examples:
  bicast mptcp list                       every MPTCP connection, with its paths
  bicast mptcp switch 1 lte               move this connection to lte; wlan0 stays open, as backup
  bicast mptcp switch --all lte --hard    leave a dead path; its data in flight is retransmitted
  bicast mptcp list --json | jq '.[].subflows[] | select(.srtt_us > 100000)'
  bicast mptcp VERB --help                explain one verb

Only one end of a connection may switch: a path is backup when EITHER end has flagged it, and neither end can clear
the other's flag. A switch at either end moves both directions.

exit codes:
  0 done   1 refused   2 wrong command line
`)
	codes := make([]string, 0, len(exitCodes))
	for kind, code := range exitCodes {
		if code >= 10 {
			codes = append(codes, fmt.Sprintf("  %d %v\n", code, kind))
		}
	}
	slices.Sort(codes)
	text.WriteString(strings.Join(codes, ""))
	return text.String()
}
