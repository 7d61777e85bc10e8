// SPDX-License-Identifier: Apache-2.0

// Package durable replaces files atomically, even across a power cut.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

var sync = (*os.File).Sync

// Rename renames a written and synced file and returns when the directory is synced too.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(sync(directory), directory.Close())
}
