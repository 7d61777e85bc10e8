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

Answers the probes of ` + "`bicast-agent probe`" + `, one session at a time, until SIGTERM or Ctrl-C
(docs/how-to/measure.md). Packets without a valid authentication code of the key get no answer.
`

// Reflect runs the verb reflect.
func Reflect(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("reflect", flag.ContinueOnError)
	listen := flags.String("listen", "", "the `ADDRESS:PORT` of this host to listen at")
	keyFile := flags.String("key-file", "", "the `FILE` with the shared key: 64 hexadecimal digits")
	device := flags.String("device", "", "the network `DEVICE` to receive and send on (default any)")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to listen in (default this process's own)")
	if code, ended := parse(flags, reflectHelp, arguments, out, complaints); ended {
		return code
	}
	at, err := netip.ParseAddrPort(*listen)
	if err != nil || *keyFile == "" || flags.NArg() != 0 {
		return complain(complaints, usage, "reflect needs --listen ADDRESS:PORT and --key-file; see `bicast-agent reflect --help`")
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
	fmt.Fprintf(out, "answering probes at %v\n", reflector.Local())
	if err := reflector.Run(ctx); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	of := reflector.Counters()
	fmt.Fprintf(out, "answered %s; not answered: %d unauthenticated, %d repeated, %d above the limit, %d failed to send\n",
		plural.Of(int(of.Answered), "packet"), of.Unauthenticated, of.Replays, of.Refused, of.Unsent)
	return done
}
