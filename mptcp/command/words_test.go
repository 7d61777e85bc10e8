// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bicast/mptcp"
)

// told returns the command between backquotes in a text that begins with this prefix.
func (b *bench) told(printed, begins string) []string {
	b.t.Helper()
	_, rest, found := strings.Cut(printed, "`"+begins)
	words, _, closed := strings.Cut(begins+rest, "`")
	if !found || !closed {
		b.t.Fatalf("expected a command that begins with %q in:\n%s", begins, printed)
	}
	return strings.Fields(words)
}

func TestSetupPrintsAWorkingUndoCommand(t *testing.T) {
	b := newBench(t)
	before := b.everything()
	said := b.run(0, "setup", "--state", filepath.Join(t.TempDir(), "state.json"))
	undo := b.told(said, "bicast mptcp setup")
	if words := strings.Join(undo, " "); !strings.HasSuffix(words, " --netns "+b.client.Path()) {
		t.Fatalf("it tells %q, expected our --netns in it", words)
	}
	b.run(0, undo[2:]...)
	if after := b.everything(); after != before {
		t.Fatalf("%q left\n%s\nexpected what was before:\n%s", undo, after, before)
	}
	b.wants(b.run(1, undo[2:]...), "there is nothing to undo", "--netns or --state")
}

func TestUndoPrintsAWorkingDeleteCommand(t *testing.T) {
	b := newBenchUnder(t, mptcp.KernelManager)
	state := filepath.Join(t.TempDir(), "state.json")
	b.run(0, "setup", "--interface", "wifi", "--state", state)
	b.run(0, "add", b.token(), "10.2.0.1")
	b.run(0, "switch", b.token(), "lte")
	said := b.run(0, "setup", "--undo", "--state", state)
	b.wants(said, "left     endpoint 10.1.0.1: subflow backup (set since, by `bicast mptcp switch` or by somebody else; ")
	remove := b.told(said, "nsenter --net="+b.client.Path())
	if out, err := exec.Command(remove[0], remove[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", remove, err, out)
	}
	if left := b.client.Run("ip", "mptcp", "endpoint"); strings.Contains(left, "10.1.0.1") {
		t.Fatalf("%q left 10.1.0.1 among\n%s", remove, left)
	}
}

func TestSwitchReportsThatNothingChanged(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		t.Run(manager.String(), func(t *testing.T) {
			b := newBenchUnder(t, manager)
			unchanged := func(path string) {
				t.Helper()
				before := b.client.Run("ip", "mptcp", "endpoint")
				said := b.run(0, "switch", b.token(), path)
				if !strings.HasPrefix(said, "nothing to change: connection ") || !strings.HasSuffix(said, " goes by "+path+" already\n") {
					t.Fatalf("it says %q, expected that there is nothing to change", said)
				}
				if after := b.client.Run("ip", "mptcp", "endpoint"); after != before {
					t.Fatalf("the endpoints are\n%s\nexpected what was before:\n%s", after, before)
				}
			}
			unchanged("wifi")
			b.run(0, "add", b.token(), "10.2.0.1")
			b.wants(b.run(0, "switch", b.token(), "lte"), "is backup")
			unchanged("lte")
		})
	}
}

func TestSwitchToTheOnlyPathClearsItsEndpoint(t *testing.T) {
	b := newBenchUnder(t, mptcp.KernelManager)
	b.client.Run("ip", "mptcp", "endpoint", "add", "10.2.0.1") // with a single endpoint the kernel flags the first subflow
	b.client.Run("ip", "mptcp", "endpoint", "add", "10.1.0.1", "backup")
	if b.list()[0].Subflows[0].BackupByUs {
		t.Fatal("the subflow is backup; expected its endpoint alone to be")
	}
	b.wants(b.run(0, "switch", b.token(), "wifi"), "10.1.0.1, is active", "this reached every connection")
}

func TestListHelpDocumentsEveryColumnAndField(t *testing.T) {
	b := newBench(t)
	table, help := b.run(0, "list"), b.run(0, "list", "--help")
	for _, line := range strings.SplitN(table, "\n", 3)[:2] {
		for _, column := range regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1) {
			if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(column) + ` `).MatchString(help) {
				t.Errorf("the column %s is not explained", column)
			}
		}
	}
	var all any
	if err := json.Unmarshal([]byte(b.run(0, "list", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, field := range fields(all) {
		if !regexp.MustCompile(`\b` + field + `\b`).MatchString(help) {
			t.Errorf("the field %s is not explained", field)
		}
	}
}

// fields are the names that occur in a document, at any depth.
func fields(document any) (names []string) {
	switch document := document.(type) {
	case []any:
		for _, one := range document {
			names = append(names, fields(one)...)
		}
	case map[string]any:
		for name, value := range document {
			names = append(append(names, name), fields(value)...)
		}
	}
	return names
}
