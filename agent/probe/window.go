package probe

const windowNumbers = 4096

// window lets each number pass once, and none that is far behind the highest.
type window struct {
	highest uint32
	seen    [windowNumbers / 64]uint64
}

func (w *window) first(number uint32) bool {
	if number > w.highest {
		for n := w.highest + 1; n != number && number-n < windowNumbers; n++ {
			w.clear(n)
		}
		if number-w.highest > windowNumbers {
			w.seen = [windowNumbers / 64]uint64{}
		}
		w.highest = number
		w.clear(number)
	}
	if w.highest-number >= windowNumbers {
		return false
	}
	word, bit := &w.seen[number%windowNumbers/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (w *window) clear(number uint32) {
	w.seen[number%windowNumbers/64] &^= 1 << (number % 64)
}
