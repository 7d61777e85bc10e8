package command

import (
	"io"
	"os"

	"bicast/agent/pathmanager"
)

// GuardVerb is not for people: `run` starts it.
const GuardVerb = "guard"

// Guard is the verb: its one argument is the network namespace.
func Guard(arguments []string, complaints io.Writer) int {
	if len(arguments) != 1 {
		return complain(complaints, usage, "`bicast-agent run --role relay` starts its guard by itself")
	}
	frugal()
	if err := pathmanager.Guard(arguments[0], os.Stdin, os.Stdout); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	return done
}
