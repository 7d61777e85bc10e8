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

prints this command line. The token is valid for one certificate and for 15 minutes. It contains the fingerprint of
the controller's CA, and the agent sends the token to no other controller. If the connection ends before an answer,
the agent tries once more. Joining again replaces the earlier certificate and key.

Other users of this host can read a command line while it runs. --token - reads the token from standard input
instead: type it there, or redirect a file: --token - < FILE.
`

const joinTimeout = 30 * time.Second

// A token has 79 bytes.
const maxTokenBytes = 4096

// firstLine returns the first line, which may lack a line break.
func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, maxTokenBytes)).ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// Join runs the verb join.
func Join(arguments []string, out, complaints io.Writer) int {
	flags := flag.NewFlagSet("join", flag.ContinueOnError)
	name := flags.String("name", "", "the enrolled `NAME` of this agent, such as phone")
	text := flags.String("token", "", "the `TOKEN` that bicast enroll NAME printed; - reads it from standard input")
	directory := flags.String("directory", trust.DefaultDirectory, "the `DIRECTORY` for the certificate and its key")
	if len(arguments) > 0 && arguments[0] != "" && arguments[0][0] != '-' {
		arguments = append(arguments[1:len(arguments):len(arguments)], arguments[0]) // the address may come first
	}
	if code, ended := parse(flags, joinHelp, arguments, out, complaints); ended {
		return code
	}
	if flags.NArg() != 1 || *name == "" || *text == "" {
		return complain(complaints, usage, "join needs ADDRESS, --name and --token; see `bicast-agent join --help`")
	}
	if *text == "-" {
		read, err := firstLine(os.Stdin)
		if err != nil {
			return complain(complaints, failed, "cannot read the token from standard input: %v", err)
		}
		*text = read
	}
	token, err := trust.ParseToken(*text)
	if err != nil {
		return complain(complaints, usage, "%v", err)
	}
	reservation, err := trust.Reserve(*directory)
	if err != nil {
		return complain(complaints, failed, "%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	identity, err := trust.Join(ctx, flags.Arg(0), *name, token)
	if err != nil {
		reservation.Release()
		return complain(complaints, failed, "%v", err)
	}
	if err := reservation.Keep(identity); err != nil {
		return complain(complaints, failed, "%v", err)
	}
	use := "bicast-agent run"
	if *directory != trust.DefaultDirectory {
		use += " --directory " + *directory
	}
	fmt.Fprintf(out, "joined as %s; the certificate is in %s and valid until %s; start the agent with `%s`\n",
		*name, *directory, identity.Certificate.NotAfter.Format(time.DateOnly), use)
	return done
}
