// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// PrintOptions prints the options for --help, with two dashes as in all our texts.
func PrintOptions(to io.Writer, flags *flag.FlagSet) {
	flags.VisitAll(func(option *flag.Flag) {
		value, usage := flag.UnquoteUsage(option)
		if value != "" {
			value = " " + value
		}
		standard := ""
		if option.DefValue != "" && option.DefValue != "false" && option.DefValue != "0" {
			standard = fmt.Sprintf(" (default %s)", option.DefValue)
		}
		fmt.Fprintf(to, "  --%s%s\n        %s%s\n", option.Name, value, usage, standard)
	})
}

// Matches an option with one dash in an error of Go's parser: at the end, or before the reason.
var oneDash = regexp.MustCompile(`(: |flag |for )-([a-z])`)

// ParseOptions parses options. Its errors name them with two dashes.
func ParseOptions(flags *flag.FlagSet, arguments []string) error {
	err := flags.Parse(arguments)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errors.New(oneDash.ReplaceAllString(err.Error(), "${1}--${2}"))
	}
	return err
}

// NamespaceOption defines --netns. It refuses an empty value, which comes from an unset variable in a script and never
// means this process's own namespace.
func NamespaceOption(flags *flag.FlagSet, netns *string, usage string) {
	flags.Func("netns", usage, func(text string) error {
		if strings.TrimSpace(text) == "" {
			return errors.New("expected a name of `ip netns`, or a path; omit --netns for this process's own namespace")
		}
		*netns = text
		return nil
	})
}
