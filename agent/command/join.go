// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"bicast/agent/trust"
)

const joinHelp = `
usage: bicast-agent join ADDRESS --name NAME --token TOKEN|- [--directory DIRECTORY]

Fetches this agent's certificate from the controller at ADDRESS (host:port). On the controller

  ./bicast enroll NAME

prints the whole line; its token is good once and for 15 minutes. It says whom to trust, too: nothing is told
to anybody but the controller that printed it. Who hangs up is asked once more: a token is used up by a certificate
alone. Joining again replaces what an earlier joining gave.

What stands in a command line, other users of this host can read while it runs. --token - reads the token from the
standard input instead: type it there, or use a file: --token - < FILE.
`

const joinWithin = 30 * time.Second

// Longer than any token.
const mostTokenBytes = 4096

// firstLine is what stands before the first line break, or before the end.
func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, mostTokenBytes)).ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// Join is the verb.
func Join(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("join", flag.ContinueOnError)
	name := flags.String("name", "", "the name that the controller enrolled, such as phone")
	text := flags.String("token", "", "the `TOKEN` that bicast enroll NAME printed; -: read it from the standard input")
	directory := flags.String("directory", trust.DefaultDirectory, "where to keep the certificate and its key")
	if len(arguments) > 0 && arguments[0] != "" && arguments[0][0] != '-' {
		arguments = append(arguments[1:len(arguments):len(arguments)], arguments[0]) // the address may come first
	}
	if code, ended := parse(flags, joinHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 1 || *name == "" || *text == "" {
		return complain(complaints, usage, "join wants ADDRESS, --name and --token; `bicast-agent join --help` teaches it")
	}
	if *text == "-" {
		read, err := firstLine(os.Stdin)
		if err != nil {
			return complain(complaints, failed, "the token cannot be read from the standard input: %v", err)
		}
		*text = read
	}
	token, err := trust.ParseToken(*text)
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	place, err := trust.Reserve(*directory)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	identity, err := trust.Join(ctx, flags.Arg(0), *name, token)
	if err != nil {
		place.Release()
		return complain(complaints, failed, "%v", err)
	}
	if err := place.Keep(identity); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	use := "bicast-agent run"
	if *directory != trust.DefaultDirectory {
		use += " --directory " + *directory
	}
	fmt.Fprintf(out, "joined as %s; the certificate is in %s and good until %s; `%s` uses it\n",
		*name, *directory, identity.Certificate.NotAfter.Format(time.DateOnly), use)
	return done
}
