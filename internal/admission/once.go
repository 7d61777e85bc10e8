// SPDX-License-Identifier: Apache-2.0

package admission

// Remembered is the size of the replay window below the highest number.
const Remembered = 4096

// Once passes each number once, and none below its window.
type Once struct {
	any     bool
	highest uint32
	passed  [Remembered / 64]uint64
}

// Any reports whether any number has passed.
func (o *Once) Any() bool { return o.any }

// Latest reports whether the number is higher than all that have passed.
func (o *Once) Latest(number uint32) bool { return !o.any || number > o.highest }

// Fresh reports whether the number may pass: it is within the window, or above, and has not passed yet.
func (o *Once) Fresh(number uint32) bool {
	return o.Latest(number) || o.highest-number < Remembered && *o.word(number)&bit(number) == 0
}

// Pass records a fresh number.
func (o *Once) Pass(number uint32) {
	if o.Latest(number) {
		for each := range min(number-o.highest, Remembered) {
			*o.word(number - each) &^= bit(number - each)
		}
		o.any, o.highest = true, number
	}
	*o.word(number) |= bit(number)
}

func (o *Once) word(of uint32) *uint64 { return &o.passed[of%Remembered/64] }

func bit(of uint32) uint64 { return 1 << (of % 64) }
