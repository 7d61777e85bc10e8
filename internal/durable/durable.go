// SPDX-License-Identifier: Apache-2.0

// Package durable replaces files so that a power cut finds the old one or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

var sync = (*os.File).Sync

// Rename replaces to by from, which was written and synced, and returns when the disk knows the new name.
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
