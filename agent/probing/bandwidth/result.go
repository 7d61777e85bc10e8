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
	udpBytes  = 8
	ipv4Bytes = 20 // IPv4 header without options
	ipv6Bytes = 40
	minLost   = 3 // longer packets that must be lost to infer a path MTU
)

// Sample is one packet. Times are nanoseconds since 1970, each on the clock of its own end; 0: unknown. With Down, it
// is an answer with two times: Sent by the peer and Received by us.
type Sample struct {
	Train                              int // 0: a single packet
	Length                             int // of UDP payload
	Came                               bool
	Sent, Received, Answered, Returned int64
}

// Result has all packets in sending order, without the trains that are left out.
type Result struct {
	Samples     []Sample
	Down        bool // from the peer to us, in the order of the requests
	LeftOut     int  // trains of answers that were spaced before they left
	Hardware    bool // our timestamps are from the network card
	FarHardware bool // the peer's timestamps are from the network card
	Queued      bool // Sent is the time of queueing, because our driver does not report departures
	Six         bool
	Late        Lateness
	Took        time.Duration
	Ended       error // nil: the whole plan was sent
}

// Write writes the file that controller/features/probing/probe_evaluation.py reads.
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
	fmt.Fprintln(out, "train,length,sent_ns,received_ns,answered_ns,returned_ns")
	for _, s := range r.Samples {
		line := strconv.AppendInt(nil, int64(s.Train), 10)
		line = strconv.AppendInt(append(line, ','), int64(s.Length), 10)
		for _, at := range []int64{s.Sent, s.Received, s.Answered, s.Returned} {
			line = append(line, ',')
			if at != 0 {
				line = strconv.AppendInt(line, at, 10)
			}
		}
		out.Write(append(line, '\n'))
	}
	return out.Flush()
}

// Lost returns how many packets or their answers were lost.
func (r Result) Lost() int {
	lost := 0
	for _, s := range r.Samples {
		if !s.Came {
			lost++
		}
	}
	return lost
}

// Reordered returns how many packets arrived after one that was sent later (RFC 4737).
func (r Result) Reordered() int {
	var came []Sample
	for _, s := range r.Samples {
		if s.Received != 0 && (s.Sent != 0 || !r.Down) {
			came = append(came, s)
		}
	}
	if r.Down { // requests may be reordered, too
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

// Through returns the longest length that arrived and the number of longer packets, all lost. It returns 0 if fewer
// than minLost were longer.
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
	if longest == 0 || lost < minLost {
		return 0, 0
	}
	return longest, lost
}

// Summary writes a summary for people, in lines.
func (r Result) Summary(to io.Writer) {
	did := "sent"
	if r.Down {
		did = "asked for"
	}
	fmt.Fprintf(to, did+" %d packets in %.2f s, lost %d, reordered %d\n", len(r.Samples), r.Took.Seconds(), r.Lost(), r.Reordered())
	fmt.Fprintf(to, "stamps: here of the %s, there of the %s\n", whose(r.Hardware), whose(r.FarHardware))
	if r.Queued {
		fmt.Fprintln(to, "the driver does not report departures: sent_ns is the time of queueing")
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(to, "left out %d trains: the way of their requests or a slow peer spaced them, not the way back\n", r.LeftOut)
	}
	fmt.Fprintf(to, "packets late by more than a tenth of the pause: %d; the latest by %v\n", r.Late.Packets, r.Late.Most.Round(time.Microsecond))
	if longest, lost := r.Through(); longest > 0 {
		header := ipv4Bytes + udpBytes
		if r.Six {
			header = ipv6Bytes + udpBytes
		}
		fmt.Fprintf(to, "no packet longer than %d bytes arrived, of %d sent: path MTU %d\n", longest, lost, longest+header)
	}
}

func whose(hardware bool) string {
	if hardware {
		return "network card"
	}
	return "kernel"
}
