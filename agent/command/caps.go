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

Prints for each executor whether this kernel can limit TCP windows with it, or the reason why not
(docs/explanation/caps.md). The command loads the BPF programs and unloads them. Run it as root: without root's rights
the kernel refuses all of them. No window changes.

  congestion-control   on a terminal: keeps the congestion window between two bounds
  clamp                on a terminal whose kernel loads no congestion control in BPF: an upper limit only
  window               on a gateway: lowers the receive window in packets that pass
`

// Caps runs the verb caps.
func Caps(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("caps", flag.ContinueOnError)
	if code, ended := parse(flags, capsHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 0 {
		return complain(complaints, usage, "caps takes no arguments; see `bicast-agent caps --help`")
	}
	for _, executor := range []struct {
		name  string
		probe func() error
	}{{"congestion-control", structops.Probe}, {"clamp", clamp.Probe}, {"window", receivewindow.Probe}} {
		if err := executor.probe(); err != nil {
			fmt.Fprintf(out, "%s: no: %s\n", executor.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Fprintf(out, "%s: yes\n", executor.name)
		}
	}
	return done
}
