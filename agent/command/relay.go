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

Runs a relay until SIGTERM or Ctrl-C (docs/how-to/relay.md). Gateways connect with MPTCP and TLS 1.3, and name a server
with HTTP CONNECT. The relay connects to the server with plain TCP. A gateway needs a certificate of the CA for one of
the names. The relay refuses this host's own addresses, private addresses, and ports that are not listed.
`

const standardPorts = "80,443"

// Relay runs the verb relay.
func Relay(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	listen := flags.String("listen", "", "the `ADDRESS:PORT` of this host where gateways connect")
	files := identityOptions(flags)
	var gateways []string
	flags.Func("gateway", "the `NAME` of a gateway that may connect (may be repeated)", func(name string) error {
		gateways = append(gateways, name)
		return nil
	})
	allowed := flags.String("allow-ports", standardPorts, "the `PORTS` of servers that the relay may connect to, such as 80,443,8000-8099")
	congestion := flags.String("congestion", "", "the congestion control `NAME` of all connections, such as bbr (default the kernel's)")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to run in (default this process's own)")
	if code, ended := parse(flags, relayHelp, arguments, out, complaints); ended {
		return code
	}
	at, err := netip.ParseAddrPort(*listen)
	if err != nil || !complete(*files) || len(gateways) == 0 || flags.NArg() != 0 {
		return complain(complaints, usage, "relay needs --listen ADDRESS:PORT, --certificate, --key, --ca and --gateway; "+
			"see `bicast-agent relay --help`")
	}
	ports, err := server.ParsePorts(*allowed)
	if err != nil {
		return complain(complaints, usage, "--allow-ports: %v", err)
	}
	if err := execInNamespace(netns); err != nil {
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
		return complain(complaints, failed, "cannot listen for gateways: %v", err)
	}
	fmt.Fprintf(out, "relaying at %v for %q, to ports %v\n", listener.Addr(), gateways, ports)
	relay.Obey(server.Order{Shows: shows, Authority: authority, Guests: mtls.Named(gateways), Ports: ports, Congestion: *congestion})
	if err := relay.Serve(ctx, listener); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

// here and hereUntil run work in the network namespace of the process.
func here(work func() error) error { return work() }

func hereUntil(_ context.Context, work func() error) error { return work() }

// identityOptions defines the options of files that relay and take share.
func identityOptions(flags *flag.FlagSet) *mtls.Files {
	files := &mtls.Files{}
	flags.StringVar(&files.Certificate, "certificate", "", "the `FILE` with this side's certificate (PEM)")
	flags.StringVar(&files.Key, "key", "", "the `FILE` with the certificate's private key (PEM)")
	flags.StringVar(&files.Authority, "ca", "", "the `FILE` with the CA's certificate that verifies the other side (PEM)")
	return files
}

func complete(files mtls.Files) bool {
	return files.Certificate != "" && files.Key != "" && files.Authority != ""
}

// execInNamespace executes this program again in the network namespace: setns(2) moves one thread only.
func execInNamespace(netns string) error {
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
