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

Measures the path to a host where ` + "`bicast-agent reflect`" + ` answers, by packets of many lengths (docs/how-to/measure.md): each
try sends every length once, in another order. Prints when each packet left, came, was answered and its answer heard, a
line each (CSV), and says on standard error how many were lost. What it puts on the path is length, tries and pause: 16 to
1440 bytes every 10 ms are 0.6 Mbit/s. With --down the path from there to here is measured: packets of 64 bytes go there,
and the answers have the lengths.
`

// Lengths that are sent where none are said.
const (
	forth = "16-1440/16"
	down  = "64-1440/16"
)

// Probe is the verb.
func Probe(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	to := flags.String("to", "", "the `ADDRESS:PORT` that answers")
	keyFile := flags.String("key-file", "", "the `FILE` with the key: 64 hexadecimal digits")
	device := flags.String("device", "", "the `DEVICE` to send by, and no other")
	lengths := flags.String("lengths", "", "`FIRST-LAST/STEP` in bytes of UDP payload (default "+forth+", with --down "+down+")")
	var plan bandwidth.Plan
	flags.IntVar(&plan.Tries, "tries", 10, "how often each length is sent")
	flags.DurationVar(&plan.Every, "every", 10*time.Millisecond, "from one packet to the next, at least: ten times what the longest takes, or more")
	flags.IntVar(&plan.Trains, "trains", 0, "how many trains follow: packets of the longest length at once")
	flags.IntVar(&plan.TrainPackets, "train-packets", 50, "how many packets are in each")
	flags.BoolVar(&plan.Down, "down", false, "measure the way from there to here")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to send in")
	if code, ended := parse(flags, probeHelp, arguments, out, complaints); ended {
		return code
	}
	address, err := netip.ParseAddrPort(*to)
	if err != nil || *keyFile == "" || flags.NArg() != 0 {
		return complain(complaints, usage, "probe wants --to ADDRESS:PORT and --key-file; `bicast-agent probe --help` teaches it")
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

// measure prints what came, also where that is not all.
func measure(ctx context.Context, prober *bandwidth.Prober, plan bandwidth.Plan, out, complaints io.Writer) int {
	result, err := prober.Measure(ctx, plan)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	if err := result.Write(out); err != nil {
		return complain(complaints, failed, "the result cannot be written: %v", err)
	}
	result.Summary(complaints)
	if result.Ended != nil {
		return complain(complaints, failed, "%v", result.Ended)
	}
	return done
}
