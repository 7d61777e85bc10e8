// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"context"
	"errors"
	"os"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The generic netlink family of the path managers, and its group of events.
const (
	familyName = "mptcp_pm"
	eventGroup = "mptcp_pm_events"
)

// Handle sees and steers the connections of one network namespace. It may be used by several goroutines.
type Handle struct {
	namespace *namespace
	diag      *netlink.Conn
	genl      *genetlink.Conn
	family    genetlink.Family
}

// Open takes hold of a network namespace: "" is this process's own, a name is one of `ip netns`, a path is a file like
// /proc/PID/ns/net. The sockets stay in it whatever the calling thread does later.
func Open(netns string) (*Handle, error) {
	space, err := openNamespace(netns)
	if err != nil {
		return nil, err
	}
	h := &Handle{namespace: space}
	if err := h.dial(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Handle) dial() error {
	if err := administrator(); err != nil {
		return err
	}
	var err error
	if h.diag, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, h.namespace.config()); err != nil {
		return refusal("a sock_diag socket cannot be opened", err)
	}
	if h.genl, err = genetlink.Dial(h.namespace.config()); err != nil {
		return refusal("a generic netlink socket cannot be opened", err)
	}
	// The kernel's own words in its refusals; one that is too old for that says less.
	if err = h.genl.SetOption(netlink.ExtendedAcknowledge, true); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		return refusal("the kernel's words cannot be had", err)
	}
	if h.family, err = h.genl.GetFamily(familyName); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return &Error{
				Kind: NoMPTCP, What: "this kernel has no MPTCP", Said: err,
				Advice: "boot Linux 5.19 or newer, built with CONFIG_MPTCP, as distributions build theirs",
			}
		}
		return refusal("the kernel does not tell its family "+familyName, err)
	}
	return nil
}

// administrator asks for the right before the kernel silently shows less: to others it tells no subflow's token.
func administrator() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return refusal("this process's rights cannot be read", err)
	}
	if rights[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return refusal("connections are told to administrators only", unix.EPERM)
	}
	return nil
}

// Close lets go. Streams of events end by their contexts, not by this.
func (h *Handle) Close() error {
	var failures []error
	if h.diag != nil {
		failures = append(failures, h.diag.Close())
	}
	if h.genl != nil {
		failures = append(failures, h.genl.Close())
	}
	return errors.Join(append(failures, h.namespace.file.Close())...)
}

// NamespaceID is a number that the kernel gives to this network namespace and to no other one as long as it runs (see BootID).
func (h *Handle) NamespaceID() (uint64, error) { return h.namespace.id() }

// Do runs work on a thread inside the namespace: for net.Interfaces and /proc/sys/net, which answer by the asker's own.
func (h *Handle) Do(work func() error) error { return h.namespace.do(work) }

// Dial runs work inside the namespace that waits for others, as connecting does. It has places of its own, so that no server that is
// silent holds up what Do runs.
func (h *Handle) Dial(ctx context.Context, work func() error) error {
	return h.namespace.dial(ctx, work)
}

// refusal names what the kernel said no to; nil where it did not. That there is no right is its own kind.
func refusal(what string, err error) error {
	var ours *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &Error{Kind: NoRight, What: what, Said: err, Advice: "run this as root, or with CAP_NET_ADMIN"}
	default:
		return &Error{Kind: Refused, What: what, Said: err}
	}
}
