// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"flag"
	"io"
	"net/netip"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/probing/bandwidth"
	"bicast/mptcp/command"
)

const probeHelp = `
usage: bicast-agent probe --to ADDRESS:PORT --key-file FILE [--device DEVICE] [--tries N] [--every DURATION]
                          [--lengths FIRST-LAST/STEP] [--trains N [--train-packets N]] [--down] [--netns NETNS]

Measures the path to a host where ` + "`bicast-agent reflect`" + ` runs, with packets of many lengths (docs/how-to/measure.md).
Each try sends every length once, in a random order. The output is CSV with a line for each packet: the times of its
departure, its arrival, and the departure and arrival of its answer. Standard error gets the number of lost packets.

The load is the mean length divided by the pause: 16 to 1440 bytes every 10 ms are 0.6 Mbit/s. --down measures the path
from that host to this one: requests have 64 bytes, and the answers have the lengths.
`

// The default lengths.
const (
	forth = "16-1440/16"
	down  = "64-1440/16"
)

// Probe runs the verb probe.
func Probe(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	to := flags.String("to", "", "the `ADDRESS:PORT` where bicast-agent reflect listens")
	keyFile := flags.String("key-file", "", "the `FILE` with the shared key: 64 hexadecimal digits")
	device := flags.String("device", "", "the network `DEVICE` to send on (default by the routes)")
	lengths := flags.String("lengths", "", "the lengths `FIRST-LAST/STEP` in bytes of UDP payload (default "+forth+", with --down "+down+")")
	var plan bandwidth.Plan
	flags.IntVar(&plan.Tries, "tries", 10, "the number `N` of packets of each length")
	flags.DurationVar(&plan.Every, "every", 10*time.Millisecond, "the minimum `DURATION` between two packets: at least ten times the transmission time of the longest")
	flags.IntVar(&plan.Trains, "trains", 0, "the number `N` of trains sent afterwards: bursts of packets of the longest length (default 0)")
	flags.IntVar(&plan.TrainPackets, "train-packets", 50, "the number `N` of packets in a train")
	flags.BoolVar(&plan.Down, "down", false, "measure the path from the other host to this one")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to send in (default this process's own)")
	if code, ended := parse(flags, probeHelp, arguments, out, complaints); ended {
		return code
	}
	address, err := netip.ParseAddrPort(*to)
	if err != nil || *keyFile == "" || flags.NArg() != 0 {
		return complain(complaints, usage, "probe needs --to ADDRESS:PORT and --key-file; see `bicast-agent probe --help`")
	}
	if *lengths == "" {
		*lengths = forth
		if plan.Down {
			*lengths = down
		}
	}
	if plan.Lengths, err = bandwidth.ParseLengths(*lengths); err == nil {
		err = plan.Check()
	}
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	key, err := bandwidth.ReadKey(*keyFile)
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	var prober *bandwidth.Prober
	if err := within(netns, func() (err error) {
		prober, err = bandwidth.Dial(address, *device, key)
		return err
	}); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	defer prober.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	return measure(ctx, prober, plan, out, complaints)
}

// measure prints the result, even if the measurement ended early.
func measure(ctx context.Context, prober *bandwidth.Prober, plan bandwidth.Plan, out, complaints io.Writer) int {
	result, err := prober.Measure(ctx, plan)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	if err := result.Write(out); err != nil {
		return complain(complaints, failed, "cannot write the result: %v", err)
	}
	result.Summary(complaints)
	if result.Ended != nil {
		return complain(complaints, failed, "%v", result.Ended)
	}
	return done
}
