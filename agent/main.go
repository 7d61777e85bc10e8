// SPDX-License-Identifier: Apache-2.0

// Command bicast-agent carries out orders on a host.
package main

import (
	"fmt"
	"os"

	agent "bicast/agent/command"
	"bicast/agent/host"
	"bicast/mptcp/command"
)

const usage = `usage: bicast-agent VERB [ARGUMENT...]

verbs:
  join     fetch this host's certificate from its controller, once
  run      run the agent of this host
  release  undo what killed agents left: the path manager, BPF programs, nft rules
  caps     list the ways in which this kernel can limit TCP windows
  reflect  answer the packets of another host's probe
  probe    measure the path to a host that runs reflect
  relay    run a relay: MPTCP towards gateways, plain TCP towards servers
  take     relay the TCP connections of a gateway's terminals
  mptcp    list and steer live MPTCP connections from outside their processes
  version  print the version of this program

bicast-agent VERB --help explains one verb.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(command.Usage)
	}
	switch verb, rest := os.Args[1], os.Args[2:]; verb {
	case "join":
		os.Exit(agent.Join(rest, os.Stdout, os.Stderr))
	case "run":
		os.Exit(agent.Run(rest, os.Stdout, os.Stderr))
	case agent.GuardVerb:
		os.Exit(agent.Guard(rest, os.Stderr))
	case "release":
		os.Exit(agent.Release(rest, os.Stdout, os.Stderr))
	case "caps":
		os.Exit(agent.Caps(rest, os.Stdout, os.Stderr))
	case "reflect":
		os.Exit(agent.Reflect(rest, os.Stdout, os.Stderr))
	case "probe":
		os.Exit(agent.Probe(rest, os.Stdout, os.Stderr))
	case "relay":
		os.Exit(agent.Relay(rest, os.Stdout, os.Stderr))
	case "take":
		os.Exit(agent.Take(rest, os.Stdout, os.Stderr))
	case "mptcp":
		os.Exit(command.Main(rest, os.Stdout, os.Stderr))
	case "version", "--version":
		fmt.Println(host.Version)
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "bicast-agent: unknown verb %q\n\n%s", verb, usage)
		os.Exit(command.Usage)
	}
}
