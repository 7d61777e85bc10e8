package tune

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"bicast/mptcp"
)

// What was changed, and from what: a file that Undo reads.
type record struct {
	Namespace uint64   `json:"namespace"` // its number; a namespace of a later life is another one
	Changes   []change `json:"changes"`
}

type change struct {
	Name string `json:"name"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

// DefaultState is where the state of a namespace is kept; it goes with the namespace at the next boot.
func DefaultState(h *mptcp.Handle) (string, error) {
	id, err := h.NamespaceID()
	return fmt.Sprintf("/run/bicast/mptcp-%d.json", id), err
}

func load(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; expected what `setup` wrote: remove it, and nothing is undone", path, err)
	}
	return &r, nil
}

func (r *record) mustBeOf(h *mptcp.Handle, path string) error {
	id, err := h.NamespaceID()
	if err == nil && id != r.Namespace {
		err = fmt.Errorf("%s is of another network namespace (%d, this is %d): give another --state, or remove it",
			path, r.Namespace, id)
	}
	return err
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

// save replaces the file whole.
func (r *record) save(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
