// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"

	"bicast/internal/nftable"
)

const rulesEach = 4 // of a tunnel: rules in pin.go

// ruled is how many rules stand: counters stand on when somebody flushes rules, and strangers pass.
func (p pins) ruled() (stand int, err error) {
	err = p.outside(func() (err error) {
		stand, err = nftable.Rules(table)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("whether strangers are kept out cannot be seen: %w", err)
	}
	return stand, nil
}
