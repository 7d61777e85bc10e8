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

// PrintOptions is what --help tells of options, with two dashes, as everything else that people read has them.
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

// Go's parser names an option with one dash, at the end of its sentence or before the reason.
var oneDash = regexp.MustCompile(`(: |flag |for )-([a-z])`)

// ParseOptions parses, and says what is wrong with two dashes.
func ParseOptions(flags *flag.FlagSet, arguments []string) error {
	err := flags.Parse(arguments)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errors.New(oneDash.ReplaceAllString(err.Error(), "${1}--${2}"))
	}
	return err
}

// NamespaceOption is --netns. An empty one is refused: it comes of a variable that a script has not set, and our own
// namespace is not what was meant.
func NamespaceOption(flags *flag.FlagSet, netns *string, usage string) {
	flags.Func("netns", usage, func(text string) error {
		if strings.TrimSpace(text) == "" {
			return errors.New("expected a name of `ip netns`, or a path; without --netns it is this process's own namespace")
		}
		*netns = text
		return nil
	})
}
