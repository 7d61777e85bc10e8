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

Takes the TCP connections that terminals make through this gateway, and carries them over MPTCP to a relay, which makes them
from there on (docs/how-to/relay.md). Terminals are those whose packets come by one of the inside devices, from an address of one of
the networks. Those to this host's own addresses, to private ones and to others that no relay
reaches are left alone, and so is all that is not TCP. It wants nft, and root.

While there is no relay: direct, they are made by this gateway, with the terminal's address; block, they are reset. What is
said by that holds when this process is killed, too, until it runs again or --undo takes it away. When it is ended
otherwise, everything is as it was before.
`

// Take is the verb.
func Take(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("take", flag.ContinueOnError)
	relay := flags.String("relay", "", "the relay's `HOST:PORT`")
	name := flags.String("name", "", "the `NAME` that the relay's certificate is for")
	files := identityOptions(flags)
	port := flags.Uint("port", 0, "the port `N` of the loopback addresses that connections are led to")
	fallback := flags.String("fallback", "", "`direct|block`: what becomes of connections while there is no relay")
	var order divert.Order
	flags.Func("inside", "a `DEVICE` by which terminals' packets come; once for each", devices(&order.Inside))
	flags.Func("from", "a `NETWORK` of terminals; once for each", terminals(&order.From))
	flags.Func("except", "a `NETWORK` of destinations that is left alone; once for each", networks(&order.Except))
	undo := flags.Bool("undo", false, "take away what one left that was killed")
	if code, ended := parse(flags, takeHelp, arguments, out, complaints); ended {
		return code
	}
	if *undo {
		return takeNothing(complaints)
	}
	if _, _, err := net.SplitHostPort(*relay); err != nil || *name == "" || !complete(*files) || *port == 0 || *port > 65535 ||
		*fallback != "direct" && *fallback != "block" || len(order.Inside) == 0 || len(order.From) == 0 || flags.NArg() != 0 {
		return complain(complaints, usage, "take wants --relay HOST:PORT, --name, --certificate, --key, --ca, --port, "+
			"--fallback direct or block, --inside and --from; `bicast-agent take --help` teaches it")
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
			log.Warn("the relay cannot be reached", "relay", *name, "at", *relay, "reason", err, "fallback", *fallback)
		} else {
			log.Info("the relay can be reached", "relay", *name, "at", *relay)
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
	failures := make(chan error, 3) // of both listeners, and of nft
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
		fmt.Fprintf(out, "takes connections for the relay %s\n", *name)
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

// devices is an option that adds one.
func devices(to *[]string) func(string) error {
	return func(name string) error {
		if name == "" || len(name) >= unix.IFNAMSIZ || strings.ContainsAny(name, "/\"* \t\n") {
			return errors.New("expected the name of a network device such as eth1")
		}
		if name == "lo" {
			return errors.New("expected a device by which terminals' packets come, such as eth1: by lo come this host's own")
		}
		*to = append(*to, name)
		return nil
	}
}

// terminals is an option that adds the network of some.
func terminals(to *[]netip.Prefix) func(string) error {
	return func(text string) error {
		network, err := parseNetwork(text)
		if err == nil && network.Addr().IsLoopback() {
			err = errors.New("expected a network of terminals such as 192.168.110.0/24: this one is every host's own")
		}
		if err == nil {
			*to = append(*to, network)
		}
		return err
	}
}

// networks is an option that adds one.
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
		return network, fmt.Errorf("expected %v for the network, or %v for the one address", network.Masked(), host)
	}
	return network, nil
}
