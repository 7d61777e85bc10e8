// SPDX-License-Identifier: Apache-2.0

// Package mptcp observes and steers the live MPTCP connections of a network namespace from outside their processes, on
// an unpatched kernel from 5.19 on.
//
// It switches the path of an application that does not know about it, for which the papers needed a patched kernel. It
// contains no policy: callers decide which path is good and when to leave it.
//
// It uses two netlink families: sock_diag for state, the generic family mptcp_pm for orders and events. Which orders
// work depends on the path manager that a connection was created under:
//
//   - userspace: orders name a connection by its token and one subflow by its addresses and ports;
//   - kernel: orders name an endpoint, an address of the namespace, and affect every connection that uses it.
//
// The scheduler treats a subflow as backup when EITHER end has flagged it. One end cannot clear the other's flag, so
// only one end of a connection may switch.
package mptcp
