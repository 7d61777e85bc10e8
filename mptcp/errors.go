// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
)

// Kind says which of the things that can go wrong went wrong: errors.Is(err, mptcp.Gone).
type Kind int

// The kinds. The command's exit code follows from the kind alone.
const (
	Refused           Kind = iota // the kernel said no, for a reason that has no kind of its own
	NoMPTCP                       // the kernel was built without MPTCP, or is too old
	NoRight                       // not root in the user namespace that owns the network namespace
	NoNamespace                   // there is no such network namespace
	Gone                          // the connection, or the subflow, has ended
	Reused                        // the token belongs to another connection now
	NoPath                        // the connection has no such subflow, or only that one
	HeldByPeer                    // the other end has flagged the path too: it cannot be cleared from here
	NotEstablished                // a subflow was asked for and did not come to be
	WrongManager                  // the connection is under the other path manager
	Indistinguishable             // the kernel's path manager cannot tell the paths apart: they share our address
	LimitReached                  // the kernel's path manager may not make one more subflow
	Malformed                     // the kernel's answer is not what its headers say
)

var kinds = map[Kind]string{
	Refused: "refused", NoMPTCP: "no MPTCP", NoRight: "no right", NoNamespace: "no such namespace", Gone: "gone",
	Reused: "token reused", NoPath: "no such path", HeldByPeer: "held by the other end",
	NotEstablished: "not established", WrongManager: "wrong path manager", Indistinguishable: "paths share an address",
	LimitReached: "limit reached", Malformed: "malformed answer",
}

// Error makes a Kind something that errors.Is finds.
func (k Kind) Error() string { return kinds[k] }

// Error is what every function of this package returns: what was tried, what the kernel said, and what to do.
type Error struct {
	Kind   Kind
	What   string // what was tried and did not work
	Said   error  // the kernel's own words; nil when the reason is ours
	Advice string // what to do
}

func (e *Error) Error() string {
	text := e.What
	if e.Said != nil {
		text = fmt.Sprintf("%s (the kernel said: %v)", text, e.Said)
	}
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap lets errors.Is find the kind and the kernel's errno.
func (e *Error) Unwrap() []error {
	if e.Said == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Said}
}

// KindOf is the kind of an error of this package, and false for another's.
func KindOf(err error) (Kind, bool) {
	var ours *Error
	if !errors.As(err, &ours) {
		return Refused, false
	}
	return ours.Kind, true
}
