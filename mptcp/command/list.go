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
  TOKEN        its name in the kernel, 8 hex digits
  PROCESS      the process that has its socket open, with its PID; "-" if it is not visible
  MANAGER      its path manager: kernel or userspace
  SENT         bytes that the peer has acknowledged
  RECEIVED     bytes received from the peer

a path:
  PATH         our address and port
  OTHER END    the peer's
  STATE        opening, active, or backup: flagged by us, by the peer, or by both
  SENT         bytes that the peer has acknowledged
  RECEIVED     bytes received on this path, duplicates included
  RTT (LEAST)  the smoothed round-trip time, and the minimum
  CWND         the congestion window, in segments
  RATE         the last delivery rate
  RESENT       segments retransmitted
The last four describe what this end sends: at an end that only receives they keep their initial values.

Connections that requested MPTCP and got plain TCP are not listed: the other end does not support it, or a middlebox
removes its options.

fields of --json, for a connection:
  token, path_manager, processes (pid, name), bytes_sent, bytes_received: as above
  serves                     whether this end accepted the connection
  subflows                   its paths

fields of --json, for a path:
  local_address, local_port, remote_address, remote_port: both ends
  local_id, remote_id        address ids in this connection (RFC 8684, 3.4); 0: the first path
  established                false during the handshake
  backup_by_us, backup_by_peer: which end has flagged it
  srtt_us, min_rtt_us        round-trip times in microseconds, smoothed and minimum
  cwnd_segments, mss_bytes   congestion window, and bytes in a full segment
  in_flight_segments         sent, neither acknowledged nor considered lost
  delivery_rate_bps          bits per second, the kernel's last measurement
  segments_sent, retransmits: segments with data, and how many were retransmitted
  bytes_acked, bytes_received: as above
  since_ack_ms               milliseconds since the last acknowledgement
  since_data_ms              milliseconds since the last data received
`

var list = &verb{
	name: "list", form: "list [--pid PID | --name NAME] [--json] [--netns NAME]",
	summary:     "show every MPTCP connection with its paths",
	description: listHelp,
	options:     listOptions, run: runList,
}

var watch = &verb{
	name: "watch", form: "watch [--pid PID | --name NAME] [--netns NAME]",
	summary: "show the list again each second until Ctrl-C",
	description: "Redraws the output of list each second until Ctrl-C; in a file or a pipe, it appends pages. " +
		"`bicast mptcp list --help` explains the columns.\n",
	options: filterOptions, run: runWatch,
}

func filterOptions(s *session, flags *flag.FlagSet) {
	flags.IntVar(&s.pid, "pid", 0, "only connections of the process `PID`")
	flags.StringVar(&s.process, "name", "", "only connections of processes called `NAME`, as `ps -o comm` shows it")
}

func listOptions(s *session, flags *flag.FlagSet) {
	filterOptions(s, flags)
	flags.BoolVar(&s.json, "json", false, "print every field as JSON, with units in the names")
}

func runList(s *session, words []string) error {
	if len(words) > 0 {
		return s.usageError("%q is one word too many", words[0])
	}
	all, err := s.selected(true)
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
		return s.usageError("%q is one word too many", words[0])
	}
	place := appendPage
	if isTerminal(s.out) {
		place = redraw
	}
	for ticks := time.Tick(time.Second); ; <-ticks {
		all, err := s.selected(true)
		if err != nil {
			return err
		}
		var page bytes.Buffer
		drawn := session{out: &page, handle: s.handle, pid: s.pid, process: s.process}
		if err := drawn.table(all); err != nil {
			return err
		}
		fmt.Fprintln(&page, time.Now().Format(time.TimeOnly))
		if _, err := io.WriteString(s.out, place(page.String())); err != nil {
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

// redraw overwrites the previous page: cursor home, erase the rest of each line, then everything below.
func redraw(page string) string {
	return "\x1b[H" + strings.ReplaceAll(page, "\n", "\x1b[K\n") + "\x1b[J"
}

// appendPage appends a page, for outputs that are no terminal.
func appendPage(page string) string { return page + "\n" }

func (s *session) table(all []ownedConnection) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(s.out, s.emptyText())
		return err
	}
	var text bytes.Buffer
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "TOKEN\tPROCESS\tMANAGER\tSENT\tRECEIVED\t\t\t\t")
	fmt.Fprintln(rows, "  PATH\tOTHER END\tSTATE\tSENT\tRECEIVED\tRTT (LEAST)\tCWND\tRATE\tRESENT")
	for _, c := range all {
		manager, err := s.handle.PathManagerOf(c.Connection)
		if errors.Is(err, mptcp.Gone) || errors.Is(err, mptcp.Reused) {
			continue // it has just ended
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
