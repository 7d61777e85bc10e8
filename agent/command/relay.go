// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"bicast/internal/mtls"
	"bicast/mptcp"
	"bicast/mptcp/command"
	"bicast/relay/server"
)

const relayHelp = `
usage: bicast-agent relay --listen ADDRESS:PORT --certificate FILE --key FILE --ca FILE --gateway NAME ...
                          [--allow-ports PORTS] [--congestion NAME] [--netns NETNS]

Is a relay until it is ended (docs/how-to/relay.md): MPTCP and TLS 1.3 with gateways, plain TCP with the servers that they ask for by
HTTP CONNECT. Who shows no certificate of that authority for one of those names gets nothing. Nobody reaches this host's
own addresses, nor private ones, nor ports that are not listed.
`

const standardPorts = "80,443"

// Relay is the verb.
func Relay(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	listen := flags.String("listen", "", "the `ADDRESS:PORT` of this host that gateways come to")
	files := identityOptions(flags)
	var gateways []string
	flags.Func("gateway", "the `NAME` of a gateway that is relay; once for each", func(name string) error {
		gateways = append(gateways, name)
		return nil
	})
	allowed := flags.String("allow-ports", standardPorts, "the `PORTS` of servers that are reached, such as 80,443,8000-8099")
	congestion := flags.String("congestion", "", "the congestion control `NAME` of what is sent, such as bbr; else the kernel's")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to be in")
	if code, ended := parse(flags, relayHelp, arguments, out, complaints); ended {
		return code
	}
	at, err := netip.ParseAddrPort(*listen)
	if err != nil || !complete(*files) || len(gateways) == 0 || flags.NArg() != 0 {
		return complain(complaints, usage, "relay wants --listen ADDRESS:PORT, --certificate, --key, --ca and --gateway; "+
			"`bicast-agent relay --help` teaches it")
	}
	ports, err := server.ParsePorts(*allowed)
	if err != nil {
		return complain(complaints, usage, "--allow-ports: %v", err)
	}
	if err := beWithin(netns); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	shows, authority, err := files.Load()
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	relay, err := server.Open(here, hereUntil, slog.New(slog.NewTextHandler(complaints, nil)))
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	defer relay.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	listener, err := server.Listen(ctx, at, *congestion)
	if err != nil {
		return complain(complaints, failed, "the relay's door cannot be opened: %v", err)
	}
	fmt.Fprintf(out, "relays at %v for %q, to ports %v\n", listener.Addr(), gateways, ports)
	relay.Obey(server.Order{Shows: shows, Authority: authority, Guests: mtls.Named(gateways), Ports: ports, Congestion: *congestion})
	if err := relay.Serve(ctx, listener); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

// here and hereUntil run work in the network namespace that the whole process is in.
func here(work func() error) error { return work() }

func hereUntil(_ context.Context, work func() error) error { return work() }

// identityOptions are those of both verbs.
func identityOptions(flags *flag.FlagSet) *mtls.Files {
	files := &mtls.Files{}
	flags.StringVar(&files.Certificate, "certificate", "", "the `FILE` with the certificate to show (PEM)")
	flags.StringVar(&files.Key, "key", "", "the `FILE` with its key (PEM)")
	flags.StringVar(&files.Authority, "ca", "", "the `FILE` with the certificate of who vouches for the other side (PEM)")
	return files
}

func complete(files mtls.Files) bool {
	return files.Certificate != "" && files.Key != "" && files.Authority != ""
}

// beWithin executes this program again in the network namespace, so that all its threads are there.
func beWithin(netns string) error {
	if netns == "" {
		return nil
	}
	there, err := mptcp.Open(netns)
	if err != nil {
		return err
	}
	defer there.Close()
	here, err := mptcp.Open("")
	if err != nil {
		return err
	}
	defer here.Close()
	wanted, err := there.NamespaceID()
	if err != nil {
		return err
	}
	if have, err := here.NamespaceID(); err != nil || have == wanted {
		return err
	}
	return there.Do(func() error { return unix.Exec("/proc/self/exe", os.Args, os.Environ()) })
}
