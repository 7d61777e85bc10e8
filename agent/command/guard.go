// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"

	"bicast/agent/mptcpctl/pathmanager"
	"bicast/internal/footprint"
)

// GuardVerb is not for people: `run` starts it, and `release`.
const GuardVerb = "guard"

// Guard is the verb: its arguments are the network namespace, "" for our own, and the agent's directory; with the first
// alone, it only listens for the connections that are left.
func Guard(arguments []string, complaints io.Writer) int {
	var err error
	switch len(arguments) {
	case 1:
		footprint.Begin()
		err = pathmanager.Listen(arguments[0])
	case 2:
		footprint.Begin()
		err = pathmanager.Guard(arguments[0], arguments[1], os.Stdin, os.Stdout)
	default:
		return complain(complaints, usage, "`bicast-agent run --role relay` starts its guard by itself")
	}
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}
