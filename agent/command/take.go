// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"bicast/internal/mtls"
	"bicast/relay/divert"
	"bicast/relay/proxy"
)

const takeHelp = `
usage: bicast-agent take --relay HOST:PORT --name NAME --certificate FILE --key FILE --ca FILE --port N
                         --fallback direct|block --inside DEVICE ... --from NETWORK ... [--except NETWORK ...]
       bicast-agent take --undo

Intercepts the TCP connections of terminals at this gateway and carries them over MPTCP to a relay, which connects to
the server (docs/how-to/relay.md). A terminal is a host whose packets arrive on an inside device from one of the
networks. Connections to this host's own addresses, to private addresses and to other addresses that no relay can
reach are not intercepted. Protocols other than TCP are not intercepted either. The command needs nft and root.

While the relay is unreachable, --fallback direct connects from this gateway with the terminal's address, and --fallback
block resets connections. The fallback stays in force if this process is killed, until it runs again or --undo removes
it. On SIGTERM or Ctrl-C the command restores the previous state.
`

// Take runs the verb take.
func Take(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("take", flag.ContinueOnError)
	relay := flags.String("relay", "", "the `HOST:PORT` of the relay")
	name := flags.String("name", "", "the `NAME` in the relay's certificate")
	files := identityOptions(flags)
	port := flags.Uint("port", 0, "the TCP port `N` of the proxy on the loopback addresses")
	fallback := flags.String("fallback", "", "connect directly or reset connections while the relay is unreachable: `direct|block`")
	var order divert.Order
	flags.Func("inside", "a `DEVICE` where terminals' packets arrive (may be repeated)", devices(&order.Inside))
	flags.Func("from", "a `NETWORK` of terminals (may be repeated)", terminals(&order.From))
	flags.Func("except", "a `NETWORK` of destinations that are not intercepted (may be repeated)", networks(&order.Except))
	undo := flags.Bool("undo", false, "remove what a killed take left")
	if code, ended := parse(flags, takeHelp, arguments, out, complaints); ended {
		return code
	}
	if *undo {
		return takeNothing(complaints)
	}
	if _, _, err := net.SplitHostPort(*relay); err != nil || *name == "" || !complete(*files) || *port == 0 || *port > 65535 ||
		*fallback != "direct" && *fallback != "block" || len(order.Inside) == 0 || len(order.From) == 0 || flags.NArg() != 0 {
		return complain(complaints, usage, "take needs --relay HOST:PORT, --name, --certificate, --key, --ca, --port, "+
			"--fallback direct or block, --inside and --from; see `bicast-agent take --help`")
	}
	config, err := mtls.Gateway(*files, *name)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	order.Block = *fallback == "block"
	if at, err := netip.ParseAddrPort(*relay); err == nil {
		order.Relays = []netip.Addr{at.Addr().Unmap()}
	}
	log := slog.New(slog.NewTextHandler(complaints, nil))
	towards := &proxy.Relay{Name: *name, Changed: func(err error) {
		if err != nil {
			log.Warn("the relay is unreachable", "relay", *name, "at", *relay, "reason", err, "fallback", *fallback)
		} else {
			log.Info("the relay is reachable", "relay", *name, "at", *relay)
		}
	}}
	all := &proxy.Terminal{
		Direct: proxy.AsTerminal,
		Dial: func(ctx context.Context, dialer net.Dialer, _ *proxy.Relay) (*net.TCPConn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", *relay)
			if err != nil {
				return nil, err
			}
			return conn.(*net.TCPConn), nil
		},
		TLS: func(*proxy.Relay) (*tls.Config, error) { return config, nil },
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	failures := make(chan error, 3) // two listeners and nft
	proxied, err := proxy.Open(ctx, proxy.Settings{
		Within: here, Port: uint16(*port), Log: log, Failed: func(err error) { failures <- err },
	})
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	all.Begin(ctx)
	towards.Begin(ctx)
	all.Await(towards, proxy.FullStore)
	proxied.By(&proxy.Plan{
		Inside: all, Networks: order.From, Relays: []*proxy.Relay{towards}, Choices: proxy.Chosen(nil), Undecided: &proxy.Undecided{},
		Block: order.Block,
	})
	if _, err := proxied.Write(order); err != nil {
		failures <- err
	} else {
		fmt.Fprintf(out, "intercepting connections for the relay %s\n", *name)
	}
	select {
	case err = <-failures:
		stop()
	case <-ctx.Done():
	}
	all.End()
	if err = errors.Join(err, proxied.Close()); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

func takeNothing(complaints io.Writer) int {
	place, err := divert.Claim()
	if err == nil {
		err = place.Close()
	}
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

// devices returns an option that adds a device.
func devices(to *[]string) func(string) error {
	return func(name string) error {
		if name == "" || len(name) >= unix.IFNAMSIZ || strings.ContainsAny(name, "/\"* \t\n") {
			return errors.New("expected the name of a network device such as eth1")
		}
		if name == "lo" {
			return errors.New("expected a device where terminals' packets arrive, such as eth1: lo has this host's own packets")
		}
		*to = append(*to, name)
		return nil
	}
}

// terminals returns an option that adds a network of terminals.
func terminals(to *[]netip.Prefix) func(string) error {
	return func(text string) error {
		network, err := parseNetwork(text)
		if err == nil && network.Addr().IsLoopback() {
			err = errors.New("expected a network of terminals such as 192.168.110.0/24, not loopback addresses")
		}
		if err == nil {
			*to = append(*to, network)
		}
		return err
	}
}

// networks returns an option that adds a network.
func networks(to *[]netip.Prefix) func(string) error {
	return func(text string) error {
		network, err := parseNetwork(text)
		if err == nil {
			*to = append(*to, network)
		}
		return err
	}
}

func parseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil || network.Addr().Is4In6():
		return network, errors.New("expected a network such as 192.168.110.0/24 or fd01::/64")
	case network != network.Masked():
		host := netip.PrefixFrom(network.Addr(), network.Addr().BitLen())
		return network, fmt.Errorf("expected %v for the network, or %v for one address", network.Masked(), host)
	}
	return network, nil
}
