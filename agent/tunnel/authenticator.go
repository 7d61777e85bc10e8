// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"io"
	"time"

	"bicast/internal/admission"
)

const maxPerSecond = 64 // the limit, and the burst, of challenges to fresh questions, challenges to old ones, and answers to old ones

// authenticator verifies that the other end receives at an address. Nonces become void when the other end moves.
type authenticator struct {
	admission.Proof
	admission.Tickets
	replayBudget admission.Budget
}

func newAuthenticator(random io.Reader) authenticator {
	return authenticator{
		Proof: admission.NewProof(random), Tickets: admission.NewTickets(maxPerSecond, maxPerSecond),
		replayBudget: admission.Full(maxPerSecond, maxPerSecond),
	}
}

// answers reports whether a question from the peer's address may be answered: replayed questions may have that address.
func (d *authenticator) answers(now time.Duration, fresh bool) bool {
	return fresh || d.replayBudget.Take(now)
}
