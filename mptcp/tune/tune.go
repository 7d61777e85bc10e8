// SPDX-License-Identifier: Apache-2.0

// Package tune sets what makes MPTCP leave a dead path fast in a network namespace, says what was there before, and can
// put it back.
package tune

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"bicast/mptcp"
)

// Absent is the value of what this kernel does not have, or what is not set.
const Absent = "absent"

// Step is one thing that was looked at. Where Was equals Is, nothing was changed.
type Step struct {
	Name string
	Was  string
	Is   string
	Why  string // why it was left, where it is not as wanted

	Endpoint uint8 // the id of an endpoint that Undo left: its state is forgotten, and it goes by hand alone
}

// Changed tells whether the step changed anything.
func (s Step) Changed() bool { return s.Was != s.Is }

// A thing with a value that can be read and set.
type knob interface {
	name() string
	read() (string, error)
	write(value string) error
}

// A knob and what it is to be.
type wish struct {
	knob
	value string
}

type setting struct{ name, value string }

// Sysctls under net.mptcp, with their values for a fast failover.
var sysctls = []setting{
	{"enabled", "1"},
	{"stale_loss_cnt", "1"},    // timeouts without progress until a path is left: 0.15 s instead of 0.9 s
	{"blackhole_timeout", "0"}, // one swallowed SYN else makes everything plain TCP for an hour
	{"add_addr_timeout", "2"},  // seconds until a lost announcement of an address is sent again, 120 else
	{"checksum_enabled", "0"},  // in software, on every byte; either end can ask for it all the same
}

// As many as the kernel's path manager may have.
const mostSubflows = 8

// Apply sets everything and records in the state file what it was, before it changes it. A second run keeps what the
// first one recorded. Interfaces named in backup get backup endpoints; only, where not empty, says which get endpoints. A
// dry run takes the same steps and changes nothing, the state file neither; that this could not be written it tells too.
func Apply(h *mptcp.Handle, stateFile string, only, backup []string, dry bool) ([]Step, error) {
	alone, err := lock(h)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	wishes, err := allWishes(h, only, backup)
	if err != nil {
		return nil, err
	}
	state, err := load(h, stateFile)
	if errors.Is(err, os.ErrNotExist) {
		state, err = begin(h)
	}
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, w := range wishes {
		step, err := stepTo(w)
		if err == nil && step.Changed() && !dry {
			err = take(w, step, state, stateFile)
		}
		if err != nil {
			return steps, err
		}
		steps = append(steps, step)
	}
	if dry && slices.ContainsFunc(steps, Step.Changed) {
		return steps, mustHavePlace(stateFile)
	}
	return steps, nil
}

// stepTo is what has to be done for a wish.
func stepTo(w wish) (Step, error) {
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

func take(w wish, step Step, state *record, stateFile string) error {
	state.add(step.Name, step.Was, step.Is)
	if err := state.save(stateFile); err != nil {
		return err
	}
	if err := w.write(w.value); err != nil {
		return fmt.Errorf("%s could not be set to %s: %w", w.name(), w.value, err)
	}
	return nil
}

// Undo puts back what Apply found, in the reverse order. What somebody has changed since stays, and so does an endpoint
// without which a live connection would have no path: of that alone the state file tells from then on, for another Undo,
// and the error is ErrStillUsed. A dry run says the same, and changes nothing.
func Undo(h *mptcp.Handle, stateFile string, dry bool) ([]Step, error) {
	alone, err := lock(h)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	state, err := load(h, stateFile)
	if err != nil {
		return nil, err
	}
	var steps []Step
	var staying []change
	endpoints := leaving{h: h}
	for _, change := range slices.Backward(state.Changes) {
		k := knobNamed(h, change.Name)
		step, stays, err := stepBack(k, change, &endpoints)
		if err != nil {
			return steps, err
		}
		if stays {
			staying = append(staying, change)
		}
		if step.Changed() && !dry {
			if err := k.write(change.Was); err != nil {
				return steps, fmt.Errorf("%s could not be set to %s: %w", change.Name, change.Was, err)
			}
		}
		steps = append(steps, step)
	}
	slices.Reverse(staying)
	state.Changes = staying
	switch {
	case len(staying) == 0 && dry:
		return steps, nil
	case len(staying) == 0:
		return steps, os.Remove(stateFile)
	case !dry:
		err = state.save(stateFile)
	}
	return steps, errors.Join(err, stillUsed(staying))
}

// stepBack is what has to be done to undo a change, and whether that has to wait.
func stepBack(k knob, c change, endpoints *leaving) (step Step, stays bool, err error) {
	now, err := k.read()
	if err != nil {
		return Step{}, false, err
	}
	step = Step{Name: c.Name, Was: now, Is: now}
	if now != c.Is {
		return step, false, step.leave(k)
	}
	if e, is := k.(endpoint); is {
		if step.Why, err = endpoints.why(e); err != nil || step.Why != "" {
			return step, err == nil, err
		}
	}
	step.Is = c.Was
	return step, false, nil
}

// leave says why what Undo finds is not put back: it is not what Apply has set.
func (s *Step) leave(k knob) error {
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

func allWishes(h *mptcp.Handle, only, backup []string) ([]wish, error) {
	var found []wish
	for _, s := range sysctls {
		found = append(found, wish{sysctl{h, s.name}, s.value})
	}
	for _, which := range []string{limitSubflows, limitAddresses} {
		found = append(found, wish{limit{h, which}, fmt.Sprint(mostSubflows)})
	}
	endpoints, err := endpointWishes(h, only, backup)
	return append(found, endpoints...), err
}

// The knob that a state file names, in a record that is valid.
func knobNamed(h *mptcp.Handle, name string) knob {
	if address, is := strings.CutPrefix(name, endpointPrefix); is {
		return endpointNamed(h, address)
	}
	if name == limitSubflows || name == limitAddresses {
		return limit{h, name}
	}
	return sysctl{h, strings.TrimPrefix(name, sysctlPrefix)}
}
