// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bicast/internal/durable"
	"bicast/internal/regularfile"
	"bicast/mptcp"
)

// record is the state file: what was changed, and the values before.
type record struct {
	Namespace uint64   `json:"namespace"` // see mptcp.Handle.NamespaceID
	Boot      string   `json:"boot"`      // see mptcp.BootID
	Changes   []change `json:"changes"`
}

type change struct {
	Name string `json:"name"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

// Limit of the state file; no namespace has enough addresses to exceed it.
const maxStateBytes = 1 << 20

// DefaultState returns the path of a namespace's state file. /run is empty after a reboot, as are namespaces.
func DefaultState(h *mptcp.Handle) (string, error) {
	id, err := h.NamespaceID()
	return fmt.Sprintf("/run/bicast/mptcp-%d.json", id), err
}

// newRecord returns an empty record.
func newRecord(h *mptcp.Handle) (*record, error) {
	id, err := h.NamespaceID()
	if err != nil {
		return nil, err
	}
	boot, err := mptcp.BootID()
	return &record{Namespace: id, Boot: boot}, err
}

// load reads and checks the record of this namespace.
func load(h *mptcp.Handle, path string) (*record, error) {
	text, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; expected a file written by `setup`: remove it to continue; nothing can be undone then", path, err)
	}
	here, err := newRecord(h)
	switch {
	case err != nil:
		return nil, err
	case r.Boot != here.Boot:
		return nil, fmt.Errorf("%s is of an earlier run of this machine or of another machine, and its namespace is "+
			"gone: give another --state, or remove it", path)
	case r.Namespace != here.Namespace:
		return nil, fmt.Errorf("%s belongs to another network namespace (%d, this is %d): give another --state, or remove it",
			path, r.Namespace, here.Namespace)
	}
	for _, c := range r.Changes {
		if err := c.valid(); err != nil {
			return nil, fmt.Errorf("%s: %w; expected a file written by `setup`: nothing was undone", path, err)
		}
	}
	return &r, nil
}

func readRegular(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, maxStateBytes)
	unfit := (*regularfile.Unfit)(nil)
	switch {
	case !errors.As(err, &unfit):
		return text, err
	case !unfit.Info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: give --state a regular or new file", path)
	}
	return nil, fmt.Errorf("%s has %d bytes, expected at most %d: give another --state",
		path, unfit.Info.Size(), maxStateBytes)
}

// valid checks that setup can have written the change.
func (c change) valid() error {
	leaf, isSysctl := strings.CutPrefix(c.Name, sysctlPrefix)
	address, isEndpoint := strings.CutPrefix(c.Name, endpointPrefix)
	switch {
	case isSysctl && slices.ContainsFunc(sysctls, func(s setting) bool { return s.name == leaf }):
		return nil
	case isEndpoint:
		if _, err := netip.ParseAddr(address); err != nil || c.Was != Absent {
			return fmt.Errorf("%q (was: %q) is no endpoint that `setup` makes", c.Name, c.Was)
		}
		return nil
	case c.Name == limitSubflows || c.Name == limitAddresses:
		if _, err := strconv.ParseUint(c.Was, 10, 8); err != nil {
			return fmt.Errorf("the %s cannot have been %q", c.Name, c.Was)
		}
		return nil
	}
	return fmt.Errorf("%q is nothing that `setup` sets", c.Name)
}

// add records a change and keeps the value before the first one.
func (r *record) add(name, was, is string) {
	i := slices.IndexFunc(r.Changes, func(c change) bool { return c.Name == name })
	if i < 0 {
		r.Changes = append(r.Changes, change{name, was, is})
		return
	}
	r.Changes[i].Is = is
}

// save replaces the file atomically.
func (r *record) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return stateError(path, err)
	}
	// A fixed name: a file left by a killed run is overwritten. The lock allows one run at a time (lock.go).
	temporary, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return stateError(path, err)
	}
	defer os.Remove(temporary.Name()) // if it was not renamed
	_, err = temporary.Write(append(text, '\n'))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err == nil {
		err = durable.Rename(temporary.Name(), path)
	}
	if err != nil {
		return stateError(path, err)
	}
	return nil
}

// checkWritable checks that save could write: in the directory, or in the nearest existing parent.
func checkWritable(path string) error {
	directory := filepath.Dir(path)
	err := unix.Access(directory, unix.W_OK)
	for errors.Is(err, unix.ENOENT) && directory != filepath.Dir(directory) {
		directory = filepath.Dir(directory)
		err = unix.Access(directory, unix.W_OK)
	}
	if err != nil {
		return stateError(path, &os.PathError{Op: "write in", Path: directory, Err: err})
	}
	return nil
}

func stateError(path string, err error) error {
	return fmt.Errorf("cannot save the original values in %s: %w; give a file in a writable "+
		"directory, as --state DIRECTORY/mptcp.json", path, err)
}
