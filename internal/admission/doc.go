// SPDX-License-Identifier: Apache-2.0

// Package admission limits what an open port answers: by rate (Budget), by sequence number (Once), to proven source
// addresses (Proof), and against replay (Tickets). Its memory does not grow with the number of senders.
//
// Time is an argument, of any monotonic clock.
package admission
