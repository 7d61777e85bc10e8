// SPDX-License-Identifier: Apache-2.0

// Package hostcommand runs programs of the host, such as nft and ip, and explains failures.
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

const timeout = 10 * time.Second

// Command is exec.CommandContext with a process group of its own: Ctrl-C in a terminal signals our whole group, and
// would interrupt a program that undoes our changes.
func Command(ctx context.Context, name string, words ...string) *exec.Cmd {
	process := exec.CommandContext(ctx, name, words...)
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return process
}

// Run returns the program's output; `of` is the package that contains the program.
func Run(of, input, name string, words ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
