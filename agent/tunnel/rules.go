// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"

	"bicast/internal/nftable"
)

const rulesPerTunnel = 4 // in pin.go

// ruled counts the rules. A flush of the rules keeps the counters, but admits unauthenticated packets.
func (p pins) ruled() (stand int, err error) {
	err = p.outside(func() (err error) {
		stand, err = nftable.Rules(table)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot read the rules that keep unauthenticated packets out: %w", err)
	}
	return stand, nil
}
