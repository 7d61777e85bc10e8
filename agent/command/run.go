// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/blocks"
	"bicast/agent/host"
	"bicast/agent/mptcpctl/pathmanager"
	"bicast/agent/report"
	"bicast/agent/session"
	"bicast/agent/trust"
	"bicast/agent/tunnel"
	"bicast/api/agentv1"
	"bicast/internal/footprint"
	"bicast/mptcp/command"
)

const runHelp = `
usage: bicast-agent run [--role terminal|gateway|relay] [--directory DIRECTORY] [--netns NETNS] [--blocks CGROUP]
                        [--leases FILE]

Runs the agent until SIGTERM or Ctrl-C. On SIGUSR1 it ends too, but leaves its tunnels to the next agent. It reports this host's connections to the controller that it joined, and
carries out the controller's orders. It reconnects whenever the connection ends. The certificate contains its role:
--role only checks that.

  terminal   A phone or a laptop: moves its own connections between its own addresses.
  gateway    The host of a bridge: creates tunnels, eliminates copies, lowers terminals' receive windows and relays
             their connections. It moves no connections.
  relay      A relay or a server: moves the connections that it serves. New connections use the userspace path
             manager (net.mptcp.pm_type) while the agent runs, and the kernel's afterwards. On the controller's
             order it also connects gateways to servers (docs/how-to/relay.md).

With --netns the agent reads and changes another network namespace (a name of ` + "`ip netns`" + `, or a path). It connects
to the controller from its own namespace.

With --blocks the agent limits the unsent data of the sockets in a cgroup (v2, as a path) to the block size that the
controller advises (TCP_NOTSENT_LOWAT). Every program of a terminal can read the block size at the Unix socket
` + blocks.DefaultSocket + `, or at DIRECTORY/sharers with --directory.
`

// holdWithin is how long the first session waits for the path manager, because its hello names it.
const holdWithin = 3 * time.Second

// Run runs the verb run.
func Run(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	directory := flags.String("directory", trust.DefaultDirectory, "the `DIRECTORY` with the certificate from bicast-agent join")
	named := flags.String("role", "", "the expected `ROLE`: terminal, gateway or relay (default the certificate's)")
	governed := flags.String("blocks", "", "the `CGROUP` whose sockets get the advised block size (default none)")
	leases := flags.String("leases", report.DefaultLeases, "the `FILE` of dnsmasq's leases, whose devices a gateway reports")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to read and change (default this process's own)")
	if code, ended := parse(flags, runHelp, arguments, out, complaints); ended {
		return code
	}
	if _, known := roles[*named]; (!known && *named != "") || flags.NArg() != 0 {
		return complain(complaints, usage, "run takes --role terminal, gateway or relay, and no arguments; "+
			"see `bicast-agent run --help`")
	}
	identity, err := trust.Load(*directory)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	role, err := roleOf(identity, *named)
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	footprint.Begin()
	log := slog.New(slog.NewTextHandler(complaints, nil))
	agent, err := host.Open(host.Settings{
		Netns: netns, Role: role, Sharers: sharersAt(*directory), BlocksCgroup: *governed, Leases: *leases, Log: log,
		Identity: func() (trust.Identity, error) { return trust.Load(*directory) }, Guard: guardOf(netns, *directory),
	})
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	defer agent.Close()
	live(untilSignal(), agent, role, netns, *directory, log)
	log.Info("stopped")
	return done
}

// untilSignal returns a context that ends with the first signal.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1)
	go func() {
		cause := context.Canceled
		if <-signals == unix.SIGUSR1 {
			cause = tunnel.ErrRestart
		}
		signal.Reset() // a second signal ends the process
		cancel(cause)
	}()
	return ctx
}

// roleOf returns the role in the certificate. named is the expected role, or "".
func roleOf(identity trust.Identity, named string) (agentv1.Role, error) {
	bound := identity.Role()
	if bound == "" {
		bound = cmp.Or(named, "terminal") // the controller verifies it
	}
	role, known := roles[bound]
	if !known || (named != "" && named != bound) {
		return role, fmt.Errorf("the certificate of %s is for a %s, and not for a %s: omit --role; or run `bicast enroll %s --role %s` "+
			"on the controller, and join again", identity.Name, bound, named, identity.Name, named)
	}
	return role, nil
}

// sharersAt returns the socket for local programs: the default one for the machine's agent, others for namespaces.
func sharersAt(directory string) string {
	if directory == trust.DefaultDirectory {
		return blocks.DefaultSocket
	}
	return filepath.Join(directory, "sharers")
}

// live runs the agent. It returns when the context and all parts of the agent have ended.
func live(ctx context.Context, agent *host.Host, role agentv1.Role, netns, directory string, log *slog.Logger) {
	var parts sync.WaitGroup
	defer parts.Wait()
	begin := func(part func(context.Context)) {
		parts.Add(1)
		go func() {
			defer parts.Done()
			part(ctx)
		}()
	}
	if role != agentv1.Role_ROLE_RELAY {
		mend(netns, directory, log)
	} else {
		settled := make(chan struct{})
		var once sync.Once
		supervisor := pathmanager.GuardSupervisor{
			Command: guardOf(netns, directory),
			Log:     log,
			Changed: func(bool) { once.Do(func() { close(settled) }) },
		}
		begin(func(ctx context.Context) {
			supervisor.Run(ctx)
			mend(netns, directory, log) // the last guard may have been killed
		})
		select {
		case <-settled:
		case <-time.After(holdWithin):
		case <-ctx.Done():
		}
	}
	begin(agent.Run)
	begin(func(ctx context.Context) { supervise(ctx, agent.Alive, log) })
	stream := session.New(session.Dialer(directory), agent, log)
	stream.Identity = func() string { return trust.Stamp(directory) }
	stream.Name = func() string { return trust.NameIn(directory) }
	stream.Renew = func(certificate []byte) error { return trust.Renew(directory, certificate) }
	stream.Run(ctx)
}

// guardOf returns the command that holds a namespace's path manager.
func guardOf(netns, directory string) []string {
	return []string{"/proc/self/exe", GuardVerb, netns, directory}
}

// mend restores the path manager after a guard was killed.
func mend(netns, directory string, log *slog.Logger) {
	released, err := release(netns, directory)
	if err != nil {
		log.Error("cannot restore the path manager after an agent and its guard were killed", "reason", err)
	}
	if released {
		log.Warn(handedBack)
	}
}
