// SPDX-License-Identifier: Apache-2.0

package caps

import "testing"

func TestPaceIsInBytesPerSecondAndNeverZero(t *testing.T) {
	for bps, expected := range map[uint64]uint32{0: NoPace, 1: 1, 8_000_000: 1_000_000, 1 << 40: NoPace, ^uint64(0): NoPace} {
		if now := pace(bps); now != expected {
			t.Errorf("%d bit/s: %d bytes a second, expected %d", bps, now, expected)
		}
	}
}
