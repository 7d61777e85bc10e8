// SPDX-License-Identifier: Apache-2.0

// Package trust authenticates an agent and its controller to each other: first with a token that a person carries from
// the controller to the agent, then with certificates.
package trust
