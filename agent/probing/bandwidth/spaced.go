// SPDX-License-Identifier: Apache-2.0

package bandwidth

// leastBehind is what answers of a train take here at least, of what they were written in: then the way here spaced them.
const leastBehind = 1.1

// spacedThere are trains of answers that came as the far end wrote them: their requests were spaced on their way there, or
// answering takes longer than the way here does, and how fast that is they do not say. The end of a train counts, by which
// its rate is told. Where it is so of most, it is of all: what spaced the others further was a machine that stood still.
func spacedThere(entries []entry) map[int]bool {
	trains := map[int][]entry{}
	for _, e := range entries {
		if e.train != 0 && e.written != 0 && e.answerCame != 0 {
			trains[e.train] = append(trains[e.train], e)
		}
	}
	found := map[int]bool{}
	for train, those := range trains {
		first, last := those[len(those)/2], those[len(those)-1]
		if float64(last.answerCame-first.answerCame) < leastBehind*float64(last.written-first.written) {
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
