// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is what is sent: every length once a try, in another order each time, so that no drift of a clock looks like a
// length; then trains. Down, that is what the far end is asked to send.
type Plan struct {
	Lengths      []int // of UDP payload
	Tries        int
	Every        time.Duration // from one packet to the next, at least
	Trains       int
	TrainPackets int // of the longest length that came through, at once
	Down         bool
}

const (
	mostPackets  = 10_000_000
	mostTrain    = 1000 // packets: a socket's queue has room for them
	wholeAnswer  = 1500 // bytes
	shortestStep = time.Second / mostASecond
	longestPause = time.Minute // also from one train to the next: the far end forgets who is silent for much longer
)

// share is what an answer takes of those that the far end gives (mostASecond, atOnce), so that its bytes are bounded, too:
// to 7.5 million a second, and 3 million at once.
func share(length int) float64 { return max(1, float64(length)/wholeAnswer) }

// Check says what cannot be.
func (p Plan) Check() error {
	for _, length := range p.Lengths {
		if length < p.shortest() || length > Longest {
			return fmt.Errorf("a length of %d: expected %d to %d bytes of UDP payload", length, p.shortest(), Longest)
		}
	}
	least, train, of := shortestStep, mostTrain, ""
	if p.Down && len(p.Lengths) > 0 {
		of = fmt.Sprintf(" with %d bytes", wholeAnswer)
		each := share(slices.Max(p.Lengths))
		least, train = time.Duration(each*float64(shortestStep)), min(mostTrain, int(atOnce/each))
	}
	switch {
	case len(p.Lengths) == 0:
		return fmt.Errorf("no lengths: expected one at least")
	case p.Tries < 1 || p.Tries > mostPackets/len(p.Lengths):
		return fmt.Errorf("%d tries of %d lengths: expected one at least, and %d packets at most", p.Tries, len(p.Lengths), mostPackets)
	case p.Every < least || p.Every > longestPause:
		return fmt.Errorf("a packet every %v: expected %v to %v; no more than %d a second%s are answered, others would look lost",
			p.Every, least, longestPause, mostASecond, of)
	case p.Trains < 0 || p.Trains > 0 && (p.TrainPackets < 2 || p.TrainPackets > train || p.Trains > mostPackets/p.TrainPackets):
		return fmt.Errorf("%d trains of %d packets: expected 2 to %d packets in each", p.Trains, p.TrainPackets, train)
	case p.Trains > 0 && p.pause() > longestPause:
		return fmt.Errorf("trains of %d packets, each the time of a packet every %v: that is one every %v, expected %v at most",
			p.TrainPackets, p.Every, p.pause(), longestPause)
	}
	return nil
}

func (p Plan) shortest() int {
	if p.Down {
		return ShortestDown
	}
	return Shortest
}

// pause is from one train to the next.
func (p Plan) pause() time.Duration { return p.Every * time.Duration(p.TrainPackets) }

// singles is all lengths of all tries in the order of sending.
func (p Plan) singles(random *rand.Rand) []int {
	order := make([]int, 0, len(p.Lengths)*p.Tries)
	for range p.Tries {
		from := len(order)
		order = append(order, p.Lengths...)
		this := order[from:]
		random.Shuffle(len(this), func(i, j int) { this[i], this[j] = this[j], this[i] })
	}
	return order
}

// ParseLengths reads FIRST-LAST/STEP, or one length.
func ParseLengths(text string) ([]int, error) {
	wrong := fmt.Errorf("the lengths %q: expected FIRST-LAST/STEP such as 16-1440/16, or one length, of %d to %d", text, Shortest, Longest)
	ends, step, stepped := strings.Cut(text, "/")
	low, high, ranged := strings.Cut(ends, "-")
	if !ranged {
		high = low
	}
	if !stepped {
		step = "1"
	}
	var numbers [3]int
	for n, word := range []string{low, high, step} {
		var err error
		if numbers[n], err = strconv.Atoi(word); err != nil {
			return nil, wrong
		}
	}
	if numbers[0] < Shortest || numbers[1] < numbers[0] || numbers[1] > Longest || numbers[2] < 1 {
		return nil, wrong
	}
	var lengths []int
	for length := numbers[0]; length <= numbers[1]; length += numbers[2] {
		lengths = append(lengths, length)
	}
	return lengths, nil
}
