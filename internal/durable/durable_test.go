// SPDX-License-Identifier: Apache-2.0

package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRenameSyncsTheDirectory(t *testing.T) {
	directory := t.TempDir()
	from, to := filepath.Join(directory, "state.new"), filepath.Join(directory, "state")
	for name, text := range map[string]string{from: "new", to: "old"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	broken, synced := errors.New("the disk is broken"), 0
	sync = func(file *os.File) error {
		synced++
		text, err := os.ReadFile(to)
		if err != nil || string(text) != "new" || file.Name() != directory {
			t.Errorf("%s is synced while %s is %q (%v), expected %s, and the new one", file.Name(), to, text, err, directory)
		}
		return errors.Join(file.Sync(), broken)
	}
	defer func() { sync = (*os.File).Sync }()
	if err := Rename(from, to); !errors.Is(err, broken) || synced != 1 {
		t.Errorf("%v after %d syncs, expected one, and what it said", err, synced)
	}
}

func TestStateFilesUseDurableRename(t *testing.T) {
	for _, path := range []string{"agent/trust/identity.go", "mptcp/tune/state.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "os.Rename(") || !strings.Contains(string(text), "durable.Rename(") {
			t.Errorf("%s renames what it wrote by os.Rename, and a power cut may undo that: expected durable.Rename", path)
		}
	}
}
