// SPDX-License-Identifier: Apache-2.0

// Package hostcommand runs the host's own programs, such as nft and ip, and says why one could not do what it should.
package hostcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const atMost = 10 * time.Second

// Command is exec.CommandContext, in a process group of its own: a terminal sends Ctrl-C to our whole group, and a program that
// undoes what stands would be ended at its work.
func Command(ctx context.Context, name string, words ...string) *exec.Cmd {
	process := exec.CommandContext(ctx, name, words...)
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return process
}

// Run gives what the program says; `of` is the package that it comes in.
func Run(of, input, name string, words ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	process := Command(ctx, name, words...)
	process.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	process.Stdout, process.Stderr = &out, &said
	err := process.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w; install the package %s", err, of)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(words, " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}
