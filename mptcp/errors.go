// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
)

// Kind classifies an error: errors.Is(err, mptcp.Gone).
type Kind int

// The kinds. They determine the command's exit code.
const (
	Refused           Kind = iota // by the kernel, for a reason without a kind of its own
	NoMPTCP                       // the kernel has no MPTCP, or is too old
	NoRight                       // no CAP_NET_ADMIN in the user namespace that owns the network namespace
	NoNamespace                   // there is no such network namespace
	Gone                          // the connection, or the subflow, has ended
	Reused                        // the token belongs to another connection now
	NoPath                        // the connection has no such subflow, or only that one
	HeldByPeer                    // the other end has flagged the path too: this end cannot clear it
	NotEstablished                // the subflow was requested, but not established
	WrongManager                  // the connection is under the other path manager
	Indistinguishable             // the paths share our address, and the kernel's path manager distinguishes no more
	LimitReached                  // the kernel's path manager may not open another subflow
	Malformed                     // the kernel's answer contradicts its headers
)

var kinds = map[Kind]string{
	Refused: "refused", NoMPTCP: "no MPTCP", NoRight: "no right", NoNamespace: "no such namespace", Gone: "gone",
	Reused: "token reused", NoPath: "no such path", HeldByPeer: "held by the other end",
	NotEstablished: "not established", WrongManager: "wrong path manager", Indistinguishable: "paths share an address",
	LimitReached: "limit reached", Malformed: "malformed answer",
}

// Error makes a Kind a target for errors.Is.
func (k Kind) Error() string { return kinds[k] }

// Error is the error type of this package.
type Error struct {
	Kind   Kind
	What   string // what failed
	Cause  error  // the kernel's message; nil if this package refused
	Advice string // what to do
}

func (e *Error) Error() string {
	text := e.What
	if e.Cause != nil {
		text = fmt.Sprintf("%s (the kernel said: %v)", text, e.Cause)
	}
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap exposes the kind and the kernel's errno to errors.Is.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// KindOf returns the kind of an error of this package, or false for other errors.
func KindOf(err error) (Kind, bool) {
	var ours *Error
	if !errors.As(err, &ours) {
		return Refused, false
	}
	return ours.Kind, true
}
