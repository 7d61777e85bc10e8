// SPDX-License-Identifier: Apache-2.0

// Package tune sets what makes MPTCP leave a dead path fast in a network namespace, reports the previous values, and
// can restore them.
package tune

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"bicast/mptcp"
)

// Absent is the value of a setting that this kernel lacks or that is not set.
const Absent = "absent"

// Step is one setting that was examined. If Was equals Is, it was not changed.
type Step struct {
	Name string
	Was  string
	Is   string
	Why  string // why it differs from the target

	Endpoint uint8 // id of an endpoint that Undo left; only a person can delete it
}

// Changed tells whether the step changed anything.
func (s Step) Changed() bool { return s.Was != s.Is }

// knob is a setting that can be read and written.
type knob interface {
	name() string
	read() (string, error)
	write(value string) error
}

// target is a knob and its target value.
type target struct {
	knob
	value string
}

type setting struct{ name, value string }

// The sysctls under net.mptcp and their values for a fast failover.
var sysctls = []setting{
	{"enabled", "1"},
	{"stale_loss_cnt", "1"},    // timeouts without progress before a path is left: 0.15 s instead of 0.9 s
	{"blackhole_timeout", "0"}, // otherwise one lost SYN makes every new connection plain TCP for an hour
	{"add_addr_timeout", "2"},  // seconds before a lost ADD_ADDR is repeated; the default is 120
	{"checksum_enabled", "0"},  // in software, over every byte; the peer can still request it
}

// The maximum of the kernel's path manager.
const maxSubflows = 8

// Apply applies all settings; before each change it records the previous value in the state file. A second run keeps
// the values of the first. Interfaces named in backup get backup endpoints; a non-empty only restricts the interfaces.
// A dry run changes nothing, not even the state file, but fails if that is not writable.
func Apply(h *mptcp.Handle, stateFile string, only, backup []string, dry bool) ([]Step, error) {
	exclusive, err := lock(h)
	if err != nil {
		return nil, err
	}
	defer exclusive.Close()
	targets, err := allTargets(h, only, backup)
	if err != nil {
		return nil, err
	}
	state, err := load(h, stateFile)
	if errors.Is(err, os.ErrNotExist) {
		state, err = newRecord(h)
	}
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, w := range targets {
		step, err := planStep(w)
		if err == nil && step.Changed() && !dry {
			err = applyStep(w, step, state, stateFile)
		}
		if err != nil {
			return steps, err
		}
		steps = append(steps, step)
	}
	if dry && slices.ContainsFunc(steps, Step.Changed) {
		return steps, checkWritable(stateFile)
	}
	return steps, nil
}

// planStep plans the change of a setting to its target.
func planStep(w target) (Step, error) {
	was, err := w.read()
	if err != nil {
		return Step{}, err
	}
	step := Step{Name: w.name(), Was: was, Is: was}
	_, isEndpoint := w.knob.(endpoint)
	switch {
	case was == w.value:
	case was == Absent && !isEndpoint:
		step.Why = "this kernel has no such setting"
	case was != Absent && isEndpoint:
		step.Why = "it is an endpoint already"
	default:
		step.Is = w.value
	}
	return step, nil
}

func applyStep(w target, step Step, state *record, stateFile string) error {
	state.add(step.Name, step.Was, step.Is)
	if err := state.save(stateFile); err != nil {
		return err
	}
	if err := w.write(w.value); err != nil {
		return fmt.Errorf("%s could not be set to %s: %w", w.name(), w.value, err)
	}
	return nil
}

// Undo restores the values before Apply, in reverse order. It keeps values that were changed since, and endpoints that
// are the last path of a live connection. The latter stay in the state file for another Undo, and the error is
// ErrStillUsed. A dry run returns the same and changes nothing.
func Undo(h *mptcp.Handle, stateFile string, dry bool) ([]Step, error) {
	exclusive, err := lock(h)
	if err != nil {
		return nil, err
	}
	defer exclusive.Close()
	state, err := load(h, stateFile)
	if err != nil {
		return nil, err
	}
	var steps []Step
	var kept []change
	endpoints := removal{h: h}
	for _, change := range slices.Backward(state.Changes) {
		k := knobNamed(h, change.Name)
		step, keep, err := planUndo(k, change, &endpoints)
		if err != nil {
			return steps, err
		}
		if keep {
			kept = append(kept, change)
		}
		if step.Changed() && !dry {
			if err := k.write(change.Was); err != nil {
				return steps, fmt.Errorf("%s could not be set to %s: %w", change.Name, change.Was, err)
			}
		}
		steps = append(steps, step)
	}
	slices.Reverse(kept)
	state.Changes = kept
	switch {
	case len(kept) == 0 && dry:
		return steps, nil
	case len(kept) == 0:
		return steps, os.Remove(stateFile)
	case !dry:
		err = state.save(stateFile)
	}
	return steps, errors.Join(err, stillUsedError(kept))
}

// planUndo plans the undoing of a change. keep means that it must wait.
func planUndo(k knob, c change, endpoints *removal) (step Step, keep bool, err error) {
	now, err := k.read()
	if err != nil {
		return Step{}, false, err
	}
	step = Step{Name: c.Name, Was: now, Is: now}
	if now != c.Is {
		return step, false, step.markKept(k)
	}
	if e, is := k.(endpoint); is {
		if step.Why, err = endpoints.blocker(e); err != nil || step.Why != "" {
			return step, err == nil, err
		}
	}
	step.Is = c.Was
	return step, false, nil
}

// markKept explains why Undo keeps the current value: Apply did not set it.
func (s *Step) markKept(k knob) error {
	s.Why = "somebody else has set it since"
	e, is := k.(endpoint)
	if !is || s.Was == Absent {
		return nil
	}
	s.Why = "set since, by `bicast mptcp switch` or by somebody else"
	known, _, err := e.find()
	s.Endpoint = known.ID
	return err
}

func allTargets(h *mptcp.Handle, only, backup []string) ([]target, error) {
	var found []target
	for _, s := range sysctls {
		found = append(found, target{sysctl{h, s.name}, s.value})
	}
	for _, which := range []string{limitSubflows, limitAddresses} {
		found = append(found, target{limit{h, which}, fmt.Sprint(maxSubflows)})
	}
	endpoints, err := endpointTargets(h, only, backup)
	return append(found, endpoints...), err
}

// knobNamed returns the knob that a valid record names.
func knobNamed(h *mptcp.Handle, name string) knob {
	if address, is := strings.CutPrefix(name, endpointPrefix); is {
		return endpointNamed(h, address)
	}
	if name == limitSubflows || name == limitAddresses {
		return limit{h, name}
	}
	return sysctl{h, strings.TrimPrefix(name, sysctlPrefix)}
}
