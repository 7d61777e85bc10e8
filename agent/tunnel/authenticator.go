// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"io"
	"time"

	"bicast/internal/admission"
)

const mostASecond = 64 // challenges to fresh questions, to old ones, and answers to old ones; and at once

// authenticator knows who may come in: who proves to be at an address. What that was handed is void when the other end has moved.
type authenticator struct {
	admission.Proof
	admission.Tickets
	oldOfThePeers admission.Budget
}

func newAuthenticator(random io.Reader) authenticator {
	return authenticator{
		Proof: admission.NewProof(random), Tickets: admission.NewTickets(mostASecond, mostASecond),
		oldOfThePeers: admission.Full(mostASecond, mostASecond),
	}
}

// answers tells whether a question that has the peer's address may be answered: who replays them writes that on them, too.
func (d *authenticator) answers(now time.Duration, fresh bool) bool {
	return fresh || d.oldOfThePeers.Take(now)
}
