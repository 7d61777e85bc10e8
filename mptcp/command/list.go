// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"bicast/mptcp"
)

const listHelp = `Shows the MPTCP connections of any process, and below each its paths (subflows).

a connection:
  TOKEN        its name in the kernel, which stays: 8 hex digits
  PROCESS      who holds its socket, with the process's number; "-" where that is not to be seen from here
  MANAGER      the path manager that it was made under: kernel or userspace
  SENT         bytes of our application that the peer has acknowledged
  RECEIVED     bytes of the peer's application

a path:
  PATH         our address and port
  OTHER END    the peer's
  STATE        opening, active, or backup: flagged by us, by the peer, or by both
  SENT         bytes that the peer has acknowledged
  RECEIVED     bytes that came by this path, copies among them
  RTT (LEAST)  the smoothed round-trip time, and the least that was seen
  CWND         the congestion window, in segments
  RATE         at which data was delivered last
  RESENT       segments sent again
The last four are of what we send: at the end that only receives they stay as they were in the beginning.

Not among them is what asked for MPTCP and got plain TCP, because the other end, or something on the way, does not speak it.

fields of --json, for a connection:
  token, path_manager, processes (pid, name), bytes_sent, bytes_received: as above
  serves                     whether this end was called (and does not call)
  subflows                   its paths

fields of --json, for a path:
  local_address, local_port, remote_address, remote_port: its two ends
  local_id, remote_id        the addresses' numbers in this connection (RFC 8684, 3.4); 0 is the first path's
  established                false while it is opening
  backup_by_us, backup_by_peer: who has flagged it
  srtt_us, min_rtt_us        round-trip times in microseconds, smoothed and least
  cwnd_segments, mss_bytes   the congestion window, and how large a segment is
  in_flight_segments         sent, and neither acknowledged nor given up for lost
  delivery_rate_bps          bits a second, as the kernel last measured it
  segments_sent, retransmits: segments with data, and those of them that were sent again
  bytes_acked, bytes_received: as above
  since_ack_ms               milliseconds since the last acknowledgement came
  since_data_ms              milliseconds since the last data came
`

var list = &verb{
	name: "list", form: "list [--pid PID | --name NAME] [--json] [--netns NAME]",
	summary: "show every MPTCP connection with its paths",
	teach:   listHelp,
	options: choosing, run: runList,
}

var watch = &verb{
	name: "watch", form: "watch [--pid PID | --name NAME] [--netns NAME]",
	summary: "show the same, redrawn each second until Ctrl-C",
	teach: "Draws what list shows, each second anew, until Ctrl-C; into a file or a pipe, one page below the other. " +
		"`bicast mptcp list --help` teaches the columns.\n",
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
	all, err := s.chosen(true)
	if err != nil {
		return err
	}
	if s.json {
		return s.listJSON(all)
	}
	return s.table(all)
}

func runWatch(s *session, words []string) error {
	if len(words) > 0 {
		return s.misused("%q is one word too many", words[0])
	}
	placed := below
	if isTerminal(s.out) {
		placed = redrawn
	}
	for ticks := time.Tick(time.Second); ; <-ticks {
		all, err := s.chosen(true)
		if err != nil {
			return err
		}
		var page bytes.Buffer
		drawn := session{out: &page, handle: s.handle, pid: s.pid, process: s.process}
		if err := drawn.table(all); err != nil {
			return err
		}
		fmt.Fprintln(&page, time.Now().Format(time.TimeOnly))
		if _, err := io.WriteString(s.out, placed(page.String())); err != nil {
			return err
		}
	}
}

func isTerminal(out io.Writer) bool {
	file, is := out.(*os.File)
	if !is {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// redrawn is a page over the one before: home, then each line with what was behind it erased, then what was below.
func redrawn(page string) string {
	return "\x1b[H" + strings.ReplaceAll(page, "\n", "\x1b[K\n") + "\x1b[J"
}

// below is a page behind the one before, for what is no terminal.
func below(page string) string { return page + "\n" }

func (s *session) table(all []listed) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(s.out, s.none())
		return err
	}
	var text bytes.Buffer
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "TOKEN\tPROCESS\tMANAGER\tSENT\tRECEIVED\t\t\t\t")
	fmt.Fprintln(rows, "  PATH\tOTHER END\tSTATE\tSENT\tRECEIVED\tRTT (LEAST)\tCWND\tRATE\tRESENT")
	for _, c := range all {
		manager, err := s.handle.PathManagerOf(c.Connection)
		if errors.Is(err, mptcp.Gone) || errors.Is(err, mptcp.Reused) {
			continue // just now
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(rows, "%v\t%s\t%v\t%s\t%s\t\t\t\t\n", c.Token, owner(c.holders), manager,
			size(c.BytesSent), size(c.BytesReceived))
		for _, f := range c.Subflows {
			fmt.Fprintf(rows, "  %v\t%v\t%s\t%s\t%s\t%s (%s)\t%d\t%s\t%d\n", f.Local, f.Remote, stateOf(f), size(f.BytesAcked),
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
