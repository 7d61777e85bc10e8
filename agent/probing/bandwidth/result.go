// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

const (
	udpBytes   = 8
	fourBytes  = 20 // of an IPv4 header, without options
	sixBytes   = 40
	fewestLost = 3 // of longer packets, until a path is said not to carry them
)

// Sample is one packet. Times are nanoseconds since 1970, each of the clock of its own end; 0: not known. Down, it is an
// answer: Sent by the far end, Received by us, and that is all.
type Sample struct {
	Train                           int // 0: sent by itself
	Length                          int // of UDP payload
	Came                            bool
	Sent, Received, Answered, Heard int64
}

// Result is all that was sent, in that order, but for trains that are left out.
type Result struct {
	Samples     []Sample
	Down        bool // from the far end to us, in the order of asking
	LeftOut     int  // trains down that were spaced before they left
	Hardware    bool // our times are the network card's
	FarHardware bool // the far end's are
	Queued      bool // our driver does not say when packets leave: it is when they were queued
	Six         bool
	Late        Lateness
	Took        time.Duration
	Ended       error // nil: all that was planned was sent
}

// Write is the file that controller/features/probing/probe_evaluation.py reads.
func (r Result) Write(to io.Writer) error {
	by, transport := "software", "udp"
	if r.Hardware && r.FarHardware {
		by = "hardware"
	}
	if r.Six {
		transport = "udp6"
	}
	direction := ""
	if r.Down {
		direction = " direction=down"
	}
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, "# bicast probe 1 stamps=%s transport=%s%s\n", by, transport, direction)
	fmt.Fprintln(out, "train,length,sent_ns,received_ns,answered_ns,heard_ns")
	for _, s := range r.Samples {
		line := strconv.AppendInt(nil, int64(s.Train), 10)
		line = strconv.AppendInt(append(line, ','), int64(s.Length), 10)
		for _, at := range []int64{s.Sent, s.Received, s.Answered, s.Heard} {
			line = append(line, ',')
			if at != 0 {
				line = strconv.AppendInt(line, at, 10)
			}
		}
		out.Write(append(line, '\n'))
	}
	return out.Flush()
}

// Lost is how many never came, or their answers did not.
func (r Result) Lost() int {
	lost := 0
	for _, s := range r.Samples {
		if !s.Came {
			lost++
		}
	}
	return lost
}

// Reordered is how many came after one that was sent later (RFC 4737).
func (r Result) Reordered() int {
	var came []Sample
	for _, s := range r.Samples {
		if s.Received != 0 && (s.Sent != 0 || !r.Down) {
			came = append(came, s)
		}
	}
	if r.Down { // requests may be overtaken, too
		slices.SortStableFunc(came, func(a, b Sample) int { return cmp.Compare(a.Sent, b.Sent) })
	}
	reordered, before := 0, int64(math.MaxInt64)
	for _, s := range slices.Backward(came) {
		if s.Received > before {
			reordered++
		}
		before = min(before, s.Received)
	}
	return reordered
}

// Through is the longest length that came through where longer ones were lost, all of them; 0 where that is not so.
func (r Result) Through() (longest, lost int) {
	for _, s := range r.Samples {
		if s.Came {
			longest = max(longest, s.Length)
		}
	}
	for _, s := range r.Samples {
		if s.Length > longest {
			lost++
		}
	}
	if longest == 0 || lost < fewestLost {
		return 0, 0
	}
	return longest, lost
}

// Summary is for people, a line each.
func (r Result) Summary(to io.Writer) {
	did := "sent"
	if r.Down {
		did = "asked for"
	}
	fmt.Fprintf(to, did+" %d packets in %.2f s, lost %d, reordered %d\n", len(r.Samples), r.Took.Seconds(), r.Lost(), r.Reordered())
	fmt.Fprintf(to, "stamps: here of the %s, there of the %s\n", whose(r.Hardware), whose(r.FarHardware))
	if r.Queued {
		fmt.Fprintln(to, "the driver does not tell when packets leave: sent_ns is when they went into its queue")
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(to, "left out %d trains: they came as they were written, behind the way up of their requests, or by a far end that is no faster\n", r.LeftOut)
	}
	fmt.Fprintf(to, "late by more than a tenth of the pause: %d; the latest by %v\n", r.Late.Packets, r.Late.Most.Round(time.Microsecond))
	if longest, lost := r.Through(); longest > 0 {
		header := fourBytes + udpBytes
		if r.Six {
			header = sixBytes + udpBytes
		}
		fmt.Fprintf(to, "nothing longer than %d bytes came through, of %d packets: path MTU %d\n", longest, lost, longest+header)
	}
}

func whose(hardware bool) string {
	if hardware {
		return "network card"
	}
	return "kernel"
}
