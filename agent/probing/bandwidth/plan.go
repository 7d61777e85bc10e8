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

// Plan says what to send: every length once per try, shuffled in each try so that clock drift does not look like an
// effect of length, and then trains. With Down, the peer is asked to send that.
type Plan struct {
	Lengths      []int // of UDP payload
	Tries        int
	Every        time.Duration // minimum from one packet to the next
	Trains       int
	TrainPackets int // sent at once, with the longest length that arrived
	Down         bool
}

const (
	maxPackets   = 10_000_000
	maxTrain     = 1000 // packets that a socket's queue can hold
	wholeAnswer  = 1500 // bytes
	shortestStep = time.Second / answersPerSecond
	longestPause = time.Minute // also between trains: the peer forgets a session that is silent for much longer
)

// share is how many answers an answer of this length costs (answersPerSecond, answerBurst). That limits bytes, too:
// 7.5 million a second, 3 million at once.
func share(length int) float64 { return max(1, float64(length)/wholeAnswer) }

// Check returns what is wrong with a plan.
func (p Plan) Check() error {
	for _, length := range p.Lengths {
		if length < p.shortest() || length > Longest {
			return fmt.Errorf("length %d, expected %d to %d bytes of UDP payload", length, p.shortest(), Longest)
		}
	}
	least, train, of := shortestStep, maxTrain, ""
	if p.Down && len(p.Lengths) > 0 {
		of = fmt.Sprintf(" with %d bytes", wholeAnswer)
		each := share(slices.Max(p.Lengths))
		least, train = time.Duration(each*float64(shortestStep)), min(maxTrain, int(answerBurst/each))
	}
	switch {
	case len(p.Lengths) == 0:
		return fmt.Errorf("no lengths, expected at least one")
	case p.Tries < 1 || p.Tries > maxPackets/len(p.Lengths):
		return fmt.Errorf("%d tries of %d lengths, expected at least one try and at most %d packets", p.Tries, len(p.Lengths), maxPackets)
	case p.Every < least || p.Every > longestPause:
		return fmt.Errorf("a packet every %v, expected %v to %v; no more than %d a second%s are answered, others would look lost",
			p.Every, least, longestPause, answersPerSecond, of)
	case p.Trains < 0 || p.Trains > 0 && (p.TrainPackets < 2 || p.TrainPackets > train || p.Trains > maxPackets/p.TrainPackets):
		return fmt.Errorf("%d trains of %d packets, expected 2 to %d packets in each", p.Trains, p.TrainPackets, train)
	case p.Trains > 0 && p.pause() > longestPause:
		return fmt.Errorf("trains of %d packets with a packet every %v take %v each, expected at most %v",
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

// pause returns the time from one train to the next.
func (p Plan) pause() time.Duration { return p.Every * time.Duration(p.TrainPackets) }

// singles returns the lengths of all tries in sending order.
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

// ParseLengths parses FIRST-LAST/STEP, or one length.
func ParseLengths(text string) ([]int, error) {
	wrong := fmt.Errorf("lengths %q, expected FIRST-LAST/STEP such as 16-1440/16, or one length, from %d to %d", text, Shortest, Longest)
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
