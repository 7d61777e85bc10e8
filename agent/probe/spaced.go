package probe

import "time"

const (
	leastSpread = 2   // times what they were written in, requests take there: the way there spaced them
	leastBehind = 1.1 // times what they took there, answers take here: the way here spaced them further
)

// spread is in how long the end of a train, by which its rate is told, was written, came there, and came here.
type spread struct{ written, there, here time.Duration }

// elsewhere tells of a train whose answers come as its requests went: how fast the way here is it does not say.
func (s spread) elsewhere() bool {
	return float64(s.there) > leastSpread*float64(s.written) && float64(s.here) < leastBehind*float64(s.there)
}

// spacedElsewhere are the trains of requests that the way there spaced: all where most are, for what spaced the others
// further then was a machine that stood still.
func spacedElsewhere(entries []entry) map[int]bool {
	trains := map[int][]entry{}
	for _, e := range entries {
		if e.train != 0 && e.received != 0 && e.answerCame != 0 {
			trains[e.train] = append(trains[e.train], e)
		}
	}
	found := map[int]bool{}
	for train, those := range trains {
		first, last := those[len(those)/2], those[len(those)-1]
		s := spread{
			last.written - first.written, time.Duration(last.received - first.received), time.Duration(last.answerCame - first.answerCame),
		}
		if s.elsewhere() {
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
