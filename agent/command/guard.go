// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"

	"bicast/agent/mptcpctl/pathmanager"
	"bicast/internal/footprint"
)

// GuardVerb is an internal verb: run and release start it.
const GuardVerb = "guard"

// Guard runs the verb guard. Its arguments are the network namespace ("": this process's own) and the agent's directory.
// Without the directory, Guard only listens for events of remaining connections.
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
		return complain(complaints, usage, "guard is internal: `bicast-agent run --role relay` starts it")
	}
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}
