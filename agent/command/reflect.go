// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os/signal"

	"golang.org/x/sys/unix"

	"bicast/agent/probing/bandwidth"
	"bicast/internal/plural"
	"bicast/mptcp/command"
)

const reflectHelp = `
usage: bicast-agent reflect --listen ADDRESS:PORT --key-file FILE [--device DEVICE] [--netns NETNS]

Answers the probes of ` + "`bicast-agent probe`" + ` to an address of this host, of one session at a time, until it is ended
(docs/how-to/measure.md). Nobody who has not the key is answered.
`

// Reflect is the verb.
func Reflect(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("reflect", flag.ContinueOnError)
	listen := flags.String("listen", "", "the `ADDRESS:PORT` of this host that is probed")
	keyFile := flags.String("key-file", "", "the `FILE` with the key: 64 hexadecimal digits")
	device := flags.String("device", "", "the `DEVICE` to answer by, and no other")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to answer in")
	if code, ended := parse(flags, reflectHelp, arguments, out, complaints); ended {
		return code
	}
	at, err := netip.ParseAddrPort(*listen)
	if err != nil || *keyFile == "" || flags.NArg() != 0 {
		return complain(complaints, usage, "reflect wants --listen ADDRESS:PORT and --key-file; `bicast-agent reflect --help` teaches it")
	}
	key, err := bandwidth.ReadKey(*keyFile)
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	var reflector *bandwidth.Reflector
	if err := within(netns, func() (err error) {
		reflector, err = bandwidth.Open(bandwidth.Settings{At: at, Device: *device, Key: key})
		return err
	}); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	defer reflector.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	fmt.Fprintf(out, "answers probes at %v\n", reflector.Local())
	if err := reflector.Run(ctx); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	of := reflector.Counters()
	fmt.Fprintf(out, "answered %s; not answered: %d of strangers, %d for the second time, %d too many, %d whose answers this host could not send\n",
		plural.Of(int(of.Answered), "packet"), of.Strangers, of.Replays, of.Refused, of.Unsent)
	return done
}
