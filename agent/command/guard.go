package command

import (
	"flag"
	"fmt"
	"io"
	"os"

	"bicast/agent/pathmanager"
	"bicast/agent/trust"
	"bicast/mptcp/command"
)

// GuardVerb is not for people: `run` starts it, and `release`.
const GuardVerb = "guard"

const releaseHelp = `
usage: bicast-agent release [--directory DIRECTORY] [--netns NETNS]

Hands a network namespace back to the kernel's path manager where a relay's agent and its guard were killed together,
so that nobody did. It does nothing where nothing was left behind, and while an agent or its guard lives. The next
` + "`bicast-agent run`" + ` of that namespace and directory does the same by itself, whatever its role.
`

// Guard is the verb: its arguments are the network namespace, "" for our own, and the agent's directory; with the first
// alone, it only listens for the connections that are left.
func Guard(arguments []string, complaints io.Writer) int {
	var err error
	switch len(arguments) {
	case 1:
		frugal()
		err = pathmanager.Listen(arguments[0])
	case 2:
		frugal()
		err = pathmanager.Guard(arguments[0], arguments[1], os.Stdin, os.Stdout)
	default:
		return complain(complaints, usage, "`bicast-agent run --role relay` starts its guard by itself")
	}
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}

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
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	if released {
		fmt.Fprintln(out, handedBack)
	}
	return done
}

const handedBack = "the guard of the path manager was killed: the namespace is the kernel's path manager's again"

func release(netns, directory string) (bool, error) {
	return pathmanager.Release(netns, directory, []string{"/proc/self/exe", GuardVerb, netns})
}
