// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"bicast/agent/blocks"
	"bicast/agent/caps"
	"bicast/agent/caps/clamp"
	"bicast/agent/mptcpctl/pathmanager"
	"bicast/agent/trust"
	"bicast/internal/plural"
	"bicast/mptcp"
	"bicast/mptcp/command"
	"bicast/relay/divert"
	"bicast/relay/onward"
)

const releaseHelp = `
usage: bicast-agent release [--directory DIRECTORY] [--netns NETNS]

Gives back what killed agents left in a network namespace, and does nothing where nothing was left behind:

  the path manager      to the kernel's, where a relay's agent and its guard were killed together, so that nobody did;
                        not while an agent or its guard lives
  programs at cgroups   that held windows or blocks: they are taken away, and what they held of sockets is free; not
                        those of living agents. Those of other namespaces and of other versions go, too, when their
                        agents were killed more than ten minutes ago: until then they free by themselves what they held.
                        That wants CAP_SYS_ADMIN
  connections taken     at a gateway: the rules and routes by which terminals' connections were led to it, and its devices
                        towards the bridge; not those of a living one
  what is passed on     at a relay, to other ones: its rules, and devices that forward for it alone; likewise

The next ` + "`bicast-agent run`" + ` of that namespace and directory gives the path manager back by itself, whatever its
role. Programs at cgroups it takes away where it holds windows as they did (a clamp), or has the same --blocks.
`

const (
	handedBack = "the guard of the path manager was killed: the namespace is the kernel's path manager's again"
	undiverted = "terminals' connections, which a killed agent took, go by themselves again"
	unled      = "further subflows, which a killed agent passed on to other relays, begin there no more"
	unseen     = "what killed agents left at cgroups, if anything, stays: who is there cannot be seen without CAP_SYS_ADMIN " +
		"(`bicast-agent release` as root)"
)

// Release is the verb.
func Release(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	directory := flags.String("directory", trust.DefaultDirectory, "the `DIRECTORY` of the agent that was killed")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace that it held, as its `NETNS` was")
	if code, ended := parse(flags, releaseHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 0 {
		return complain(complaints, usage, "release wants no other words; `bicast-agent release --help` teaches it")
	}
	released, err := release(netns, *directory)
	if released {
		fmt.Fprintln(out, handedBack)
	}
	if err = errors.Join(err, takeAway(netns, out), undo(netns, out, divert.Release, undiverted),
		undo(netns, out, onward.Release, unled)); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

func release(netns, directory string) (bool, error) {
	return pathmanager.Release(netns, directory, []string{"/proc/self/exe", GuardVerb, netns})
}

// takeAway is of the programs at cgroups.
func takeAway(netns string, out io.Writer) error {
	gone, blind := 0, false
	err := within(netns, func() error {
		if _, err := caps.Cookie(); errors.Is(err, unix.ENOPROTOOPT) {
			return nil // older kernels take none of these
		}
		var failures []error
		for _, each := range []func() (int, bool, error){clamp.Release, blocks.Release} {
			those, dark, err := each()
			gone, blind = gone+those, blind || dark
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
	if gone > 0 {
		fmt.Fprintf(out, "taken away from cgroups: %s that killed agents left\n", plural.Of(gone, "program"))
	}
	if blind {
		fmt.Fprintln(out, unseen)
	}
	return err
}

func undo(netns string, out io.Writer, release func() (bool, error), said string) error {
	return within(netns, func() error {
		released, err := release()
		if released {
			fmt.Fprintln(out, said)
		}
		return err
	})
}

func within(netns string, work func() error) error {
	if netns == "" {
		return work()
	}
	handle, err := mptcp.Open(netns)
	if err != nil {
		return err
	}
	defer handle.Close()
	return handle.Do(work)
}
