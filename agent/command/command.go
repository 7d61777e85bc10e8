// Package command is the verbs of bicast-agent that make a host an agent: join, run, and the guard that run starts.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"bicast/api/agentv1"
)

// Exit codes.
const (
	done   = 0
	failed = 1
	usage  = 2
)

var roles = map[string]agentv1.Role{
	"terminal": agentv1.Role_ROLE_TERMINAL,
	"gateway":  agentv1.Role_ROLE_GATEWAY,
	"relay":    agentv1.Role_ROLE_RELAY,
}

// parse reads a verb's flags. What it returns is an exit code, where there is nothing left to do.
func parse(flags *flag.FlagSet, text string, arguments []string, complaints io.Writer) (code int, ended bool) {
	flags.SetOutput(complaints)
	flags.Usage = func() {
		fmt.Fprint(complaints, strings.TrimLeft(text, "\n"), "\noptions:\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return done, true
	case err != nil:
		return usage, true
	default:
		return done, false
	}
}

func complain(to io.Writer, code int, format string, values ...any) int {
	fmt.Fprintf(to, "bicast-agent: "+format+"\n", values...)
	return code
}
