package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"bicast/mptcp"
)

var list = &verb{
	name: "list", form: "list [--pid PID | --name NAME] [--json] [--netns NAME]",
	summary: "show every MPTCP connection with its paths",
	teach: `Shows the MPTCP connections of any process: number, token, who owns it, which path manager it is under, and for each
path both ends, whether it is active or backup (by us, by the peer, or by both), and how it does. The number stays a
connection's own only until another ends; the token stays.
`,
	options: choosing, run: runList,
}

var watch = &verb{
	name: "watch", form: "watch [--pid PID | --name NAME] [--netns NAME]",
	summary: "show the same, redrawn each second until Ctrl-C",
	teach:   "Draws what list shows, each second anew, until Ctrl-C.\n",
	options: filtering, run: runWatch,
}

func filtering(s *session, flags *flag.FlagSet) {
	flags.IntVar(&s.pid, "pid", 0, "only connections of the process `PID`")
	flags.StringVar(&s.process, "name", "", "only connections of processes called `NAME`, as `ps -o comm` shows it")
}

func choosing(s *session, flags *flag.FlagSet) {
	filtering(s, flags)
	flags.BoolVar(&s.json, "json", false, "for scripts: all that is known, with units in the names")
}

func runList(s *session, words []string) error {
	if len(words) > 0 {
		return s.misused("%q is one word too many", words[0])
	}
	all, err := s.connections()
	if err != nil {
		return err
	}
	all = s.filtered(all)
	if s.json {
		return s.listJSON(all)
	}
	return s.table(all)
}

func runWatch(s *session, words []string) error {
	if len(words) > 0 {
		return s.misused("%q is one word too many", words[0])
	}
	for ticks := time.Tick(time.Second); ; <-ticks {
		all, err := s.connections()
		if err != nil {
			return err
		}
		var page bytes.Buffer
		drawn := session{out: &page, handle: s.handle}
		if err := drawn.table(s.filtered(all)); err != nil {
			return err
		}
		// Home, then each line with what was behind it erased, then what was below.
		text := strings.ReplaceAll(page.String(), "\n", "\x1b[K\n")
		if _, err := fmt.Fprintf(s.out, "\x1b[H%s%s\x1b[K\n\x1b[J", text, time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	}
}

func (s *session) table(all []numbered) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(s.out, "no MPTCP connections")
		return err
	}
	var text bytes.Buffer
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "#\tTOKEN\tPROCESS\tMANAGER\tSENT\tRECEIVED\t\t\t\t")
	fmt.Fprintln(rows, "\tPATH\tOTHER END\tSTATE\tSENT\tRECEIVED\tRTT (LEAST)\tCWND\tRATE\tRESENT")
	for _, c := range all {
		manager, err := s.handle.PathManagerOf(c.Connection)
		if errors.Is(err, mptcp.Gone) || errors.Is(err, mptcp.Reused) {
			continue // just now
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(rows, "%d\t%v\t%s\t%v\t%s\t%s\t\t\t\t\n", c.number, c.Token, owner(c.holders), manager,
			size(c.BytesSent), size(c.BytesReceived))
		for _, f := range c.Subflows {
			fmt.Fprintf(rows, "\t%v\t%v\t%s\t%s\t%s\t%s (%s)\t%d\t%s\t%d\n", f.Local, f.Remote, stateOf(f), size(f.BytesAcked),
				size(f.BytesReceived), milliseconds(f.SRTT), milliseconds(f.MinRTT), f.CwndSegments,
				rate(f.DeliveryRateBPS), f.Retransmits)
		}
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(s.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func owner(holders []mptcp.Process) string {
	if len(holders) == 0 {
		return "-"
	}
	text := fmt.Sprintf("%s (%d)", holders[0].Name, holders[0].PID)
	if more := len(holders) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func stateOf(s mptcp.Subflow) string {
	switch {
	case !s.Established:
		return "opening"
	case s.BackupByUs && s.BackupByPeer:
		return "backup (both)"
	case s.BackupByUs:
		return "backup (us)"
	case s.BackupByPeer:
		return "backup (peer)"
	default:
		return "active"
	}
}

func milliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	digits := 0
	if d < 10*time.Millisecond {
		digits = 2
	}
	return fmt.Sprintf("%.*f ms", digits, float64(d)/float64(time.Millisecond))
}

func size(bytes uint64) string { return scaled(float64(bytes), "B") }
func rate(bps uint64) string   { return scaled(float64(bps), "bit/s") }
func scaled(n float64, unit string) string {
	for _, prefix := range []string{"", "k", "M", "G", "T"} {
		if n < 1000 {
			if prefix == "" {
				return fmt.Sprintf("%.0f %s", n, unit)
			}
			return fmt.Sprintf("%.1f %s%s", n, prefix, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.1f P%s", n, unit)
}
