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

// mark is a file that exists while the namespace is under the userspace path manager because of us. It is written
// before the sysctl is set and removed after the restore. A mark without a guard means that agent and guard were
// killed together.
type mark string

const markPrefix = "path-manager-"

// hasNoMarks reports whether no namespace has a mark. This needs no privileges and no MPTCP.
func hasNoMarks(directory string) (bool, error) {
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
		return fmt.Errorf("cannot write the marker file, so the path manager stays unchanged: %w", err)
	}
	return nil
}

func (m mark) isSet() (bool, error) {
	marker, err := os.ReadFile(string(m))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	boot, unread := mptcp.BootID()
	return strings.TrimSpace(string(marker)) == boot, errors.Join(err, unread)
}

func (m mark) remove() error {
	if err := os.Remove(string(m)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restore sets the kernel's path manager. The caller has the seat.
func restore(handle *mptcp.Handle, marker mark) error {
	if err := set(handle, kernel); err != nil {
		return err
	}
	return marker.remove()
}
