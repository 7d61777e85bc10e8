// SPDX-License-Identifier: Apache-2.0

package nftable

import (
	"maps"
	"testing"

	"bicast/internal/lab"
)

func TestRulesAndCountersReadATable(t *testing.T) {
	host := lab.One(t)
	expect := func(rules int, counted map[string]uint64) {
		t.Helper()
		host.Do(func() error {
			stand, err := Rules("mine")
			if err != nil {
				return err
			}
			found, err := Counters("mine")
			if stand != rules || !maps.Equal(found, counted) {
				t.Errorf("%d rules, and %v, expected %d and %v", stand, found, rules, counted)
			}
			return err
		})
	}
	expect(0, nil)
	host.Run("nft", "add table inet other; add chain inet other one; add rule inet other one drop; "+
		"add counter inet other seen { packets 1 bytes 1; }; add table inet mine")
	expect(0, nil)
	host.Run("nft", "add counter inet mine seen { packets 7 bytes 9; }; add counter inet mine none; "+
		"add chain inet mine one; add rule inet mine one drop; add rule inet mine one accept")
	expect(2, map[string]uint64{"seen": 7, "none": 0})
	host.Run("nft", "flush", "table", "inet", "mine")
	expect(0, map[string]uint64{"seen": 7, "none": 0})
}

func FuzzDecodeCounterDoesNotPanic(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(_ *testing.T, b []byte) { decodeCounter(b) })
}
