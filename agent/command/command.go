// SPDX-License-Identifier: Apache-2.0

// Package command implements the verbs of bicast-agent, except mptcp.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"bicast/api/agentv1"
	"bicast/mptcp/command"
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

// parse reads a verb's flags. If the verb ends here, it returns the exit code and true.
func parse(flags *flag.FlagSet, text string, arguments []string, out, complaints io.Writer) (code int, ended bool) {
	flags.SetOutput(io.Discard) // complain prints errors
	switch err := command.ParseOptions(flags, arguments); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, strings.TrimLeft(text, "\n"), "\noptions:\n")
		command.PrintOptions(out, flags)
		return done, true
	case err != nil:
		return complain(complaints, usage, "%s: %v; see `bicast-agent %s --help`", flags.Name(), err, flags.Name()), true
	default:
		return done, false
	}
}

func complain(to io.Writer, code int, format string, values ...any) int {
	fmt.Fprintf(to, "bicast-agent: "+format+"\n", values...)
	return code
}
