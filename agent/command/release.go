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

Undoes what killed agents left in a network namespace. State of a running agent stays. If nothing is left, the
command does nothing.

  path manager     Restores the kernel's path manager after a relay's agent and its guard were killed together.
  cgroup programs  Detaches the programs that limited windows or block sizes, and frees their sockets. This needs
                   CAP_SYS_ADMIN. Programs of other namespaces and other versions are detached ten minutes after
                   their agent was killed: until then they free their sockets by themselves.
  interception     On a gateway: removes the rules and routes that redirected terminals' connections, and the
                   agent's devices at the bridge.
  forwarding       On a relay: removes the rules that forwarded subflows to other relays, and disables IP
                   forwarding on devices that forwarded for nothing else.

The next ` + "`bicast-agent run`" + ` with the same namespace and directory restores the path manager by itself. It also
detaches cgroup programs, if it clamps windows too or has the same --blocks.
`

const (
	handedBack = "the guard of the path manager was killed; the kernel's path manager is restored"
	undiverted = "a killed agent's interception is removed; terminals' connections take the normal routes again"
	unled      = "a killed agent's forwarding of subflows to other relays is removed"
	unseen     = "cannot list the programs at cgroups without CAP_SYS_ADMIN, so those of killed agents stay: run " +
		"`bicast-agent release` as root"
)

// Release runs the verb release.
func Release(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	directory := flags.String("directory", trust.DefaultDirectory, "the `DIRECTORY` of the killed agent")
	var netns string
	command.NamespaceOption(flags, &netns, "the network namespace `NETNS` of the killed agent (default this process's own)")
	if code, ended := parse(flags, releaseHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 0 {
		return complain(complaints, usage, "release takes no arguments; see `bicast-agent release --help`")
	}
	released, err := release(netns, *directory)
	if released {
		fmt.Fprintln(out, handedBack)
	}
	if err = errors.Join(err, detachPrograms(netns, out), undo(netns, out, divert.Release, undiverted),
		undo(netns, out, onward.Release, unled)); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

func release(netns, directory string) (bool, error) {
	return pathmanager.Release(netns, directory, []string{"/proc/self/exe", GuardVerb, netns})
}

// detachPrograms detaches the programs of killed agents from cgroups.
func detachPrograms(netns string, out io.Writer) error {
	gone, blind := 0, false
	err := within(netns, func() error {
		if _, err := caps.Cookie(); errors.Is(err, unix.ENOPROTOOPT) {
			return nil // kernels before 5.14 have no cookie and load none of these programs
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
		fmt.Fprintf(out, "detached from cgroups: %s of killed agents\n", plural.Of(gone, "program"))
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
