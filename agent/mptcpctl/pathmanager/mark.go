// SPDX-License-Identifier: Apache-2.0

package pathmanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bicast/mptcp"
)

// A mark is a file that stands while the namespace is under the userspace path manager because of us. It is there before
// that is set and goes when it was given back: where it is found with nobody in the seat, agent and guard were killed
// together.
type mark string

const markPrefix = "path-manager-"

// unmarked tells whether nothing was ever left behind, in whichever namespace: that needs no rights and no MPTCP.
func unmarked(directory string) (bool, error) {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), markPrefix) }), err
}

func markOf(handle *mptcp.Handle, directory string) (mark, error) {
	id, err := handle.NamespaceID()
	if err != nil {
		return "", err
	}
	return mark(filepath.Join(directory, fmt.Sprintf("%s%d", markPrefix, id))), nil
}

func (m mark) put() error {
	boot, err := mptcp.BootID()
	if err == nil {
		err = os.WriteFile(string(m), []byte(boot), 0o600)
	}
	if err != nil {
		return fmt.Errorf("the path manager is not taken, for it cannot be noted that it has to be given back: %w", err)
	}
	return nil
}

func (m mark) stands() (bool, error) {
	noted, err := os.ReadFile(string(m))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	boot, unread := mptcp.BootID()
	return strings.TrimSpace(string(noted)) == boot, errors.Join(err, unread)
}

func (m mark) remove() error {
	if err := os.Remove(string(m)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// giveBack is done by who has the seat.
func giveBack(handle *mptcp.Handle, noted mark) error {
	if err := set(handle, kernel); err != nil {
		return err
	}
	return noted.remove()
}
