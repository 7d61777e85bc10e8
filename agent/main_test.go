// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"bicast/agent/host"
)

// With this variable in its environment, the test program runs as bicast-agent.
const asAgent = "BICAST_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	main()
	os.Exit(0)
}

// The agent's standard output. Standard error fails the test.
func printed(t *testing.T, words ...string) string {
	t.Helper()
	var complaints strings.Builder
	agent := exec.Command("/proc/self/exe", words...)
	agent.Env = append(os.Environ(), asAgent+"=1")
	agent.Stderr = &complaints
	out, err := agent.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%q: %v and %q, expected neither", words, err, complaints.String())
	}
	return string(out)
}

func TestRequestedHelpGoesToStandardOutput(t *testing.T) {
	for _, verb := range []string{"join", "run", "release", "mptcp"} {
		if said := printed(t, verb, "--help"); !strings.Contains(said, "usage: bi") {
			t.Fatalf("%s --help prints %q, expected its usage", verb, said)
		}
	}
	if said := printed(t, "--help"); !strings.HasPrefix(said, "usage: bicast-agent VERB") {
		t.Fatalf("--help prints %q, expected the usage", said)
	}
}

func TestVersionPrintsTheVersionOfTheHello(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		if said := printed(t, word); said != host.Version+"\n" {
			t.Fatalf("%s prints %q, expected %q", word, said, host.Version)
		}
	}
}
