// SPDX-License-Identifier: Apache-2.0

package bandwidth

// minSpread is the least ratio of a train's duration on arrival to its duration at the sender. Below it the way back did not
// space the train.
const minSpread = 1.1

// spacedBefore returns the trains of answers that arrived as fast as the peer wrote them. Either the way of the
// requests spaced them or the peer is slower than the way back, so they do not show its rate. The second half of a
// train decides, because it determines the rate. If this holds for most trains it holds for all: a stalled machine
// spaced the others.
func spacedBefore(entries []entry) map[int]bool {
	trains := map[int][]entry{}
	for _, e := range entries {
		if e.train != 0 && e.written != 0 && e.answerCame != 0 {
			trains[e.train] = append(trains[e.train], e)
		}
	}
	found := map[int]bool{}
	for train, those := range trains {
		first, last := those[len(those)/2], those[len(those)-1]
		if float64(last.answerCame-first.answerCame) < minSpread*float64(last.written-first.written) {
			found[train] = true
		}
	}
	if 2*len(found) > len(trains) {
		for train := range trains {
			found[train] = true
		}
	}
	return found
}
