// SPDX-License-Identifier: Apache-2.0

// Package trust is how an agent comes to know its controller, and the controller its agent: a token that people carry
// from one to the other, once, and certificates from then on.
package trust
