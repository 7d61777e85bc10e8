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

// Delays for replacing a guard that ended, and for a guard to hand back.
const (
	replaceDelay    = 200 * time.Millisecond
	maxReplaceDelay = 10 * time.Second // after repeated failures to hold the namespace
	handBackTimeout = 2 * time.Second
)

// GuardSupervisor runs the guard process of the path manager and replaces a guard that ends.
type GuardSupervisor struct {
	Command []string // of the guard, with the namespace in its arguments
	Log     *slog.Logger
	Changed func(held bool) // reports whether new connections are under the userspace path manager
}

// Run keeps a guard running until the context ends, then waits until the path manager is restored.
func (s GuardSupervisor) Run(ctx context.Context) {
	pause := replaceDelay
	for ctx.Err() == nil {
		held, err := s.runGuard(ctx)
		s.Changed(false)
		if err != nil {
			s.Log.Error("the guard of the path manager ended and will be replaced", "reason", err)
		}
		if held {
			pause = replaceDelay
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxReplaceDelay)
	}
}

// runGuard runs one guard until it or the context ends.
func (s GuardSupervisor) runGuard(ctx context.Context) (held bool, err error) {
	guard := exec.Command(s.Command[0], s.Command[1:]...)
	guard.Stderr = os.Stderr
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to our process group must not reach the guard
	input, err := guard.StdinPipe()
	if err != nil {
		return false, err
	}
	output, err := guard.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := guard.Start(); err != nil {
		return false, fmt.Errorf("cannot start the guard: %w", err)
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
			s.Log.Info("message from the guard of the path manager", "says", word)
			if held = word == holding; held { // a waiting guard changes nothing: the previous agent's guard may be ending
				s.Changed(true)
			}
		case <-ctx.Done():
			return held, handBack(input, words)
		}
	}
}

var errEnded = errors.New("the guard ended before its agent")

// handBack ends the guard's input and waits until the guard closes its output: then the path manager is restored. The
// guard may live on for the remaining connections.
func handBack(input io.Closer, words <-chan string) error {
	input.Close()
	late := time.After(handBackTimeout)
	for {
		select {
		case _, open := <-words:
			if !open {
				return nil
			}
		case <-late:
			return fmt.Errorf("the guard did not restore the path manager within %v", handBackTimeout)
		}
	}
}
