// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bicast/agent/blocks"
	"bicast/agent/host"
	"bicast/agent/mptcpctl/pathmanager"
	"bicast/agent/session"
	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/footprint"
	"bicast/mptcp/command"
)

const runHelp = `
usage: bicast-agent run [--role terminal|gateway|relay] [--directory DIRECTORY] [--netns NETNS] [--blocks CGROUP]

Reports this host's connections to the controller that it joined, and does what that orders, until it is ended. It
comes back by itself whenever the controller does. Its role is the one of its certificate, which bicast enroll gave it:
--role says only which one you expect.

  terminal   a phone or a laptop: its own connections are moved between its own addresses
  gateway    where the bridge is: makes tunnels, eliminates copies, holds terminals' windows, carries those that are
             relayed; moves no connection
  relay      a relay or a server: connections that it serves are moved one by one. New ones are made under the
             userspace path manager (net.mptcp.pm_type) while the agent lives, and under the kernel's after it.
             Where the controller orders it, gateways' connections go through it to servers (docs/how-to/relay.md)

With --netns another network namespace is read and ordered (a name of ` + "`ip netns`" + `, or a path); the controller is
still reached from this one.

With --blocks the sockets of that cgroup's programs (cgroup v2: a path) take no more of what is written than the block
that the controller advises (TCP_NOTSENT_LOWAT). What it advises, every program of a terminal may ask at the Unix socket
` + blocks.DefaultSocket + `, or DIRECTORY/sharers where --directory is given.
`

// How long the first session waits for the path manager, so that its hello tells it as it is.
const holdWithin = 3 * time.Second

// Run is the verb.
func Run(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	directory := flags.String("directory", trust.DefaultDirectory, "the `DIRECTORY` where bicast-agent join keeps the certificate")
	named := flags.String("role", "", "terminal, gateway or relay (default the certificate's)")
	governed := flags.String("blocks", "", "the `CGROUP` whose programs are given the block that is advised")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` to read and order")
	if code, ended := parse(flags, runHelp, arguments, out, complaints); ended {
		return code
	}
	if _, known := roles[*named]; (!known && *named != "") || flags.NArg() != 0 {
		return complain(complaints, usage, "run wants --role terminal, gateway or relay, and no other words; "+
			"`bicast-agent run --help` teaches it")
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
		Netns: netns, Role: role, Sharers: sharersAt(*directory), BlocksCgroup: *governed, Log: log,
		Identity: func() (trust.Identity, error) { return trust.Load(*directory) }, Guard: guardOf(netns, *directory),
	})
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	defer agent.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	live(ctx, agent, role, netns, *directory, log)
	log.Info("stopped")
	return done
}

// roleOf is what the agent is: as its certificate says. `named` is what a person expects, or "".
func roleOf(identity trust.Identity, named string) (agentv1.Role, error) {
	bound := identity.Role()
	if bound == "" {
		bound = cmp.Or(named, "terminal") // the controller has the last word
	}
	role, known := roles[bound]
	if !known || (named != "" && named != bound) {
		return role, fmt.Errorf("the certificate of %s is for a %s, and not for a %s: leave --role out; or `bicast enroll %s --role %s` "+
			"on the controller, and join again", identity.Name, bound, named, identity.Name, named)
	}
	return role, nil
}

// sharersAt is one place a machine, for the agent of it; those of other directories are of namespaces.
func sharersAt(directory string) string {
	if directory == trust.DefaultDirectory {
		return blocks.DefaultSocket
	}
	return filepath.Join(directory, "sharers")
}

// live is the agent, until the context ends and everything of it has.
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
		holder := pathmanager.Holder{
			Command: guardOf(netns, directory),
			Log:     log,
			Changed: func(bool) { once.Do(func() { close(settled) }) },
		}
		begin(func(ctx context.Context) {
			holder.Run(ctx)
			mend(netns, directory, log) // its last guard may have been killed, and none begun since
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
	stream.Run(ctx)
}

// guardOf is the command that holds a namespace's path manager.
func guardOf(netns, directory string) []string {
	return []string{"/proc/self/exe", GuardVerb, netns, directory}
}

// mend does what a guard could not that was killed, with the agent before us or just before we end.
func mend(netns, directory string, log *slog.Logger) {
	released, err := release(netns, directory)
	if err != nil {
		log.Error("what an agent that was killed with its guard left here is not all mended", "reason", err)
	}
	if released {
		log.Warn(handedBack)
	}
}
