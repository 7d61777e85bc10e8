// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/mptcp/command"
)

func TestInterruptedAddLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.client.Blacken("lte", "10.2.0.2")
	var printed bytes.Buffer
	code := make(chan int)
	go func() {
		code <- command.Main([]string{"add", b.token(), "10.2.0.1", "--netns", b.client.Path()}, &printed, &printed)
	}()
	for len(b.list()[0].Subflows) != 2 { // until the SYN is sent
		runtime.Gosched()
	}
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 17 {
		t.Fatalf("exit code %d, expected 17: %s", got, &printed)
	}
	b.wants(printed.String(), "it was interrupted", "10.2.0.1")
	if left := b.list()[0].Subflows; len(left) != 1 {
		t.Fatalf("left is %+v, expected the first one alone", left)
	}
}

func TestSetupDryRunPrintsChangesAndMakesNone(t *testing.T) {
	b := newBench(t)
	state := filepath.Join(t.TempDir(), "state.json")
	options := []string{"setup", "--backup", "lte", "--state", state}
	for _, undo := range [][]string{nil, {"--undo"}} {
		before := b.everything()
		would := b.run(0, slices.Concat(options, undo, []string{"--dry-run"})...)
		if after := b.everything(); after != before {
			t.Fatalf("%v: a dry run left\n%s\nexpected what was before:\n%s", undo, after, before)
		}
		did := b.run(0, slices.Concat(options, undo)...)
		did, _, _ = strings.Cut(did, "`bicast mptcp setup --undo")
		did = strings.NewReplacer("changed  ", "would change  ", "(was: ", "(is: ").Replace(did)
		if would != did || !strings.Contains(would, "would change  net.mptcp.stale_loss_cnt: ") {
			t.Fatalf("%v: a dry run says\n%s\nand what was done was\n%s", undo, would, did)
		}
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v, expected no state file at the end", err)
	}
}
