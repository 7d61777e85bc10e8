// SPDX-License-Identifier: Apache-2.0

package command

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"bicast/agent/caps/clamp"
	"bicast/agent/caps/receivewindow"
	"bicast/agent/caps/structops"
)

const capsHelp = `
usage: bicast-agent caps

Says how the windows of connections can be held on this kernel (docs/explanation/caps.md), a line for each executor, and why not. It is found
out by trying, with the rights of whoever asks: root, for what the machine can.

  congestion-control   at a terminal, between two bounds
  clamp                at a terminal where the kernel takes no congestion control of ours: at most so much
  window               at a gateway, of connections that pass

It holds nothing.
`

// Caps is the verb.
func Caps(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("caps", flag.ContinueOnError)
	if code, ended := parse(flags, capsHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 0 {
		return complain(complaints, usage, "caps wants no other words; `bicast-agent caps --help` teaches it")
	}
	for _, executor := range []struct {
		name  string
		probe func() error
	}{{"congestion-control", structops.Probe}, {"clamp", clamp.Probe}, {"window", receivewindow.Probe}} {
		if err := executor.probe(); err != nil {
			fmt.Fprintf(out, "%s: no: %s\n", executor.name, strings.Join(strings.Fields(err.Error()), " ")) // in one line
		} else {
			fmt.Fprintf(out, "%s: yes\n", executor.name)
		}
	}
	return done
}
