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

// The generic netlink family of the path managers, and its multicast group of events.
const (
	familyName = "mptcp_pm"
	eventGroup = "mptcp_pm_events"
)

// Handle observes and steers the connections of one network namespace. It is safe for concurrent use.
type Handle struct {
	namespace *namespace
	diag      *netlink.Conn
	genl      *genetlink.Conn
	family    genetlink.Family
}

// Open opens a network namespace: "" is this process's own, a name is one of `ip netns`, a path is a file like
// /proc/PID/ns/net. The sockets stay in it, whatever namespace the calling thread enters later.
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
	if err := requireAdmin(); err != nil {
		return err
	}
	var err error
	if h.diag, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, h.namespace.config()); err != nil {
		return refusal("cannot open a sock_diag socket", err)
	}
	if h.genl, err = genetlink.Dial(h.namespace.config()); err != nil {
		return refusal("cannot open a generic netlink socket", err)
	}
	// Adds the kernel's message to refusals; older kernels lack it.
	if err = h.genl.SetOption(netlink.ExtendedAcknowledge, true); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		return refusal("cannot enable the kernel's error messages", err)
	}
	if h.family, err = h.genl.GetFamily(familyName); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return &Error{
				Kind: NoMPTCP, What: "this kernel has no MPTCP", Cause: err,
				Advice: "boot Linux 5.19 or newer, built with CONFIG_MPTCP, as distributions build theirs",
			}
		}
		return refusal("cannot query the generic netlink family "+familyName, err)
	}
	return nil
}

// requireAdmin checks CAP_NET_ADMIN: without it the kernel silently leaves out the tokens of subflows.
func requireAdmin() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return refusal("cannot read this process's capabilities", err)
	}
	if rights[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return refusal("only administrators can list connections", unix.EPERM)
	}
	return nil
}

// Close closes the handle. Event streams end with their contexts instead.
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

// NamespaceID returns the namespace's cookie, unique until reboot (see BootID).
func (h *Handle) NamespaceID() (uint64, error) { return h.namespace.id() }

// Do runs work on a thread inside the namespace, for what depends on it: net.Interfaces, /proc/sys/net.
func (h *Handle) Do(work func() error) error { return h.namespace.do(work) }

// Dial runs work that waits for a peer, such as connecting, inside the namespace. Its limit on threads is its own, so
// that silent servers do not delay Do.
func (h *Handle) Dial(ctx context.Context, work func() error) error {
	return h.namespace.dial(ctx, work)
}

// refusal wraps an error of the kernel with what was tried; nil stays nil. Missing privileges have their own kind.
func refusal(what string, err error) error {
	var ours *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &Error{Kind: NoRight, What: what, Cause: err, Advice: "run this as root, or with CAP_NET_ADMIN"}
	default:
		return &Error{Kind: Refused, What: what, Cause: err}
	}
}
