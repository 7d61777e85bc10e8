// SPDX-License-Identifier: Apache-2.0

// Package mptcp sees and steers the live MPTCP connections of a network namespace from outside the processes that own
// them, on an unpatched kernel from 5.19 on.
//
// It exists so that a path can be switched under an application that knows nothing of it: what the papers needed a
// patched kernel for. It holds no policy: what is a good path, and when to leave it, others decide.
//
// Two netlink families carry all of it. sock_diag tells what is; the generic family mptcp_pm gives orders and tells
// events. Who may give which order depends on the path manager that a connection was born under:
//
//   - userspace: orders name a connection by its token and one subflow by its addresses and ports;
//   - kernel: orders name an endpoint, an address of the namespace, and reach every connection that uses it.
//
// The scheduler treats a subflow as backup when EITHER end has flagged it: one end cannot clear the other's flag, so
// only one end of a connection may be the switcher.
package mptcp
