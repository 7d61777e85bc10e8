// SPDX-License-Identifier: Apache-2.0

package pathmanager

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// How long until a guard that died is replaced and until one that was told to end is left to itself.
const (
	replaceAfter = 200 * time.Millisecond
	failedAfter  = 10 * time.Second // at most, where one after the other could not hold the namespace at all
	endWithin    = 2 * time.Second
)

// Holder has a guard while it runs.
type Holder struct {
	Command []string // of the guard; its arguments name the namespace
	Log     *slog.Logger
	Changed func(held bool) // whether connections come under the userspace path manager from now on
}

// Run keeps a guard until the context ends, and then sees the namespace handed back.
func (h Holder) Run(ctx context.Context) {
	pause := replaceAfter
	for ctx.Err() == nil {
		held, err := h.guarded(ctx)
		h.Changed(false)
		if err != nil {
			h.Log.Error("the guard of the path manager ended", "because", err)
		}
		if held {
			pause = replaceAfter
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, failedAfter)
	}
}

// guarded has one guard, from its start to its end, or to ours.
func (h Holder) guarded(ctx context.Context) (held bool, err error) {
	guard := exec.Command(h.Command[0], h.Command[1:]...)
	guard.Stderr = os.Stderr
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what kills our group shall not kill it
	input, err := guard.StdinPipe()
	if err != nil {
		return false, err
	}
	output, err := guard.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := guard.Start(); err != nil {
		return false, fmt.Errorf("it could not be started: %w", err)
	}
	ended := make(chan error, 1)
	words := make(chan string)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			words <- lines.Text()
		}
		close(words)
		ended <- guard.Wait()
	}()
	for {
		select {
		case word, open := <-words:
			if !open {
				return held, cmp.Or(<-ended, errEnded)
			}
			h.Log.Info("the guard of the path manager", "says", word)
			if held = word == holding; held { // one that waits has settled nothing: the guard of who was here before us may be leaving
				h.Changed(true)
			}
		case <-ctx.Done():
			return held, handBack(input, words)
		}
	}
}

var errEnded = errors.New("it ended although we have not")

// The guard closes its output when the namespace is handed back. It may live on for connections of our time.
func handBack(input io.Closer, words <-chan string) error {
	input.Close()
	late := time.After(endWithin)
	for {
		select {
		case _, open := <-words:
			if !open {
				return nil
			}
		case <-late:
			return fmt.Errorf("it did not hand the namespace back within %v", endWithin)
		}
	}
}
