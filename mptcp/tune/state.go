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

// What was changed, and from what: a file that Undo reads.
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

// No namespace has so many addresses that what is kept of it were longer.
const mostBytes = 1 << 20

// DefaultState is where the state of a namespace is kept; it goes with the namespace at the next boot.
func DefaultState(h *mptcp.Handle) (string, error) {
	id, err := h.NamespaceID()
	return fmt.Sprintf("/run/bicast/mptcp-%d.json", id), err
}

// begin is the record of a namespace in which nothing was changed yet.
func begin(h *mptcp.Handle) (*record, error) {
	id, err := h.NamespaceID()
	if err != nil {
		return nil, err
	}
	boot, err := mptcp.BootID()
	return &record{Namespace: id, Boot: boot}, err
}

// load reads what was recorded of this namespace.
func load(h *mptcp.Handle, path string) (*record, error) {
	text, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; expected what `setup` wrote: remove it, and nothing is undone", path, err)
	}
	here, err := begin(h)
	switch {
	case err != nil:
		return nil, err
	case r.Boot != here.Boot:
		return nil, fmt.Errorf("%s is of an earlier run of this machine, or of another one, and all that it tells of is "+
			"gone: give another --state, or remove it", path)
	case r.Namespace != here.Namespace:
		return nil, fmt.Errorf("%s is of another network namespace (%d, this is %d): give another --state, or remove it",
			path, r.Namespace, here.Namespace)
	}
	for _, c := range r.Changes {
		if err := c.valid(); err != nil {
			return nil, fmt.Errorf("%s: %w; expected what `setup` wrote: nothing of it is undone", path, err)
		}
	}
	return &r, nil
}

func readRegular(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, mostBytes)
	unfit := (*regularfile.Unfit)(nil)
	switch {
	case !errors.As(err, &unfit):
		return text, err
	case !unfit.Info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: --state names one, or one to be made", path)
	}
	return nil, fmt.Errorf("%s has %d bytes, and what `setup` writes has at most %d: give another --state",
		path, unfit.Info.Size(), mostBytes)
}

// valid tells whether setup can have written it.
func (c change) valid() error {
	leaf, isSysctl := strings.CutPrefix(c.Name, sysctlPrefix)
	address, isEndpoint := strings.CutPrefix(c.Name, endpointPrefix)
	switch {
	case isSysctl && slices.ContainsFunc(sysctls, func(s setting) bool { return s.name == leaf }):
		return nil
	case isEndpoint:
		if _, err := netip.ParseAddr(address); err != nil || c.Was != Absent {
			return fmt.Errorf("%q, which was %q, is no endpoint that `setup` makes", c.Name, c.Was)
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

// add keeps what was there before the first change.
func (r *record) add(name, was, is string) {
	i := slices.IndexFunc(r.Changes, func(c change) bool { return c.Name == name })
	if i < 0 {
		r.Changes = append(r.Changes, change{name, was, is})
		return
	}
	r.Changes[i].Is = is
}

// save replaces the file whole, or leaves it as it is.
func (r *record) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return elsewhere(path, err)
	}
	// One name for all: what a killed one left is written over. There is one at a time in a namespace (lock.go).
	temporary, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return elsewhere(path, err)
	}
	defer os.Remove(temporary.Name()) // where it was not renamed
	_, err = temporary.Write(append(text, '\n'))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err == nil {
		err = durable.Rename(temporary.Name(), path)
	}
	if err != nil {
		return elsewhere(path, err)
	}
	return nil
}

// mustHavePlace finds out what save would: whether the directory, or the first above it that is there, can be written.
func mustHavePlace(path string) error {
	directory := filepath.Dir(path)
	err := unix.Access(directory, unix.W_OK)
	for errors.Is(err, unix.ENOENT) && directory != filepath.Dir(directory) {
		directory = filepath.Dir(directory)
		err = unix.Access(directory, unix.W_OK)
	}
	if err != nil {
		return elsewhere(path, &os.PathError{Op: "write in", Path: directory, Err: err})
	}
	return nil
}

func elsewhere(path string, err error) error {
	return fmt.Errorf("what was there before cannot be kept in %s: %w; give a file in a "+
		"directory that can be written, as --state DIRECTORY/mptcp.json", path, err)
}
