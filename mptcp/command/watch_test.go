// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bicast/mptcp/command"
)

// watched returns what watch writes up to the end of the first page, and then stops it by closing the pipe.
func watched(b *bench, into io.Writer, outOf io.ReadCloser) string {
	b.t.Helper()
	ended := make(chan struct{})
	go func() {
		command.Main([]string{"watch", "--netns", b.client.Path()}, into, io.Discard)
		close(ended)
	}()
	b.t.Cleanup(func() { <-ended }) // at its next page
	b.t.Cleanup(func() { outOf.Close() })
	var page strings.Builder
	for reader := bufio.NewReader(outOf); strings.Count(page.String(), "\n") < 4; {
		line, err := reader.ReadString('\n')
		if err != nil {
			b.t.Fatalf("%v after %q", err, page.String())
		}
		page.WriteString(line)
	}
	return page.String()
}

func TestWatchWritesPlainPagesToAPipe(t *testing.T) {
	b := newBench(t)
	token := b.list()[0].Token
	outOf, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { into.Close() })
	page := watched(b, into, outOf)
	b.wants(page, token, "10.1.0.1:")
	if strings.Contains(page, "\x1b") {
		t.Errorf("the output to a pipe contains escape sequences: %q", page)
	}
}

func TestWatchRedrawsATerminal(t *testing.T) {
	b := newBench(t)
	screen, terminal := newTerminal(t)
	b.wants(watched(b, terminal, screen), "\x1b[H", b.list()[0].Token, "\x1b[K")
}

// newTerminal returns a pseudoterminal and its screen.
func newTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return screen, terminal
}
