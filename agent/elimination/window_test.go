// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"testing"
	"time"
)

const floor, ceiling = 10 * time.Millisecond, time.Second

func TestTheWindowCoversTheMeasuredSkews(t *testing.T) {
	for name, c := range map[string]struct {
		skew   map[int]uint64 // by step
		window time.Duration
	}{
		"nothing is known yet":             {nil, ceiling},
		"too little":                       {map[int]uint64{10: enough - 1}, ceiling},
		"paths alike":                      {map[int]uint64{10: enough}, floor},
		"33 to 67 ms":                      {map[int]uint64{25: enough}, 2 << 26},
		"a few that were far behind":       {map[int]uint64{25: 5000, 29: 5}, 2 << 26},
		"many that were":                   {map[int]uint64{25: 5000, 28: 50}, ceiling},
		"some just below the ceiling":      {map[int]uint64{25: 5000, 29: 50}, ceiling},
		"what came later than the ceiling": {map[int]uint64{25: 5000, 30: 4000, 31: 4000}, 2 << 26},
		"nothing but that":                 {map[int]uint64{30: 5000}, ceiling},
	} {
		t.Run(name, func(t *testing.T) {
			var skew skews
			for step, n := range c.skew {
				skew[step] = n
			}
			sizing := sizing{floor: floor, ceiling: ceiling}
			if got := sizing.window(skew); got != c.window {
				t.Errorf("%v, expected %v", got, c.window)
			}
		})
	}
}
