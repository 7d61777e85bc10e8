package nftable

import (
	"maps"
	"testing"

	"bicast/internal/lab"
)

func TestATableIsThereWithWhatItCounted(t *testing.T) {
	host := lab.One(t)
	expect := func(there bool, counted map[string]uint64) {
		t.Helper()
		host.Do(func() error {
			has, err := Has("mine")
			if err != nil {
				return err
			}
			found, err := Counters("mine")
			if has != there || !maps.Equal(found, counted) {
				t.Errorf("there: %v, with %v, expected %v with %v", has, found, there, counted)
			}
			return err
		})
	}
	expect(false, nil)
	host.Run("nft", "add table inet other; add counter inet other seen { packets 1 bytes 1; }; add table inet mine")
	expect(true, nil)
	host.Run("nft", "add counter inet mine seen { packets 7 bytes 9; }; add counter inet mine none")
	expect(true, map[string]uint64{"seen": 7, "none": 0})
}

func FuzzNothingThatTheKernelSaysEndsTheAgent(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(_ *testing.T, b []byte) { decodeCounter(b) })
}
