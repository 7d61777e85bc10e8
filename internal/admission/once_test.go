// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math/rand/v2"
	"testing"
)

func TestOncePassesEachNumberOnce(t *testing.T) {
	for _, first := range []uint32{0, 1, 63, 5 * Remembered, 1<<32 - 200_000} {
		var o Once
		random := rand.New(rand.NewPCG(3, 4))
		passed := map[uint32]bool{}
		highest := first
		for range 30_000 {
			number := highest - min(highest, uint32(random.IntN(2*Remembered)))
			if random.IntN(4) == 0 {
				number = highest + min(1<<32-1-highest, uint32(random.IntN(1+random.IntN(3*Remembered))))
			}
			if len(passed) == 0 {
				number = first
			}
			latest := len(passed) == 0 || number > highest
			fresh := latest || !passed[number] && highest-number < Remembered
			if o.Any() != (len(passed) > 0) || o.Latest(number) != latest || o.Fresh(number) != fresh {
				t.Fatalf("number %d, the highest being %d: latest %v, fresh %v; expected %v, %v",
					number, highest, o.Latest(number), o.Fresh(number), latest, fresh)
			}
			if fresh && random.IntN(8) > 0 { // a fresh number may be refused for other reasons
				o.Pass(number)
				passed[number] = true
				highest = max(highest, number)
			}
		}
	}
}
