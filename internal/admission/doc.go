// SPDX-License-Identifier: Apache-2.0

// Package admission limits what a port that is open to everybody answers: a rate (Budget), each number once (Once), a source
// address that was proved (Proof), and no recording of it (Tickets). Its memory does not grow with the number of senders.
//
// Time is an argument: some monotonic clock's.
package admission
