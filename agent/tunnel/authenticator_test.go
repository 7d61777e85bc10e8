// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestReplaysFromAnotherAddressDoNotMoveThePeer(t *testing.T) {
	p := newPair(t, 4).settle()
	p.outside = addressOf(2)
	p.until(time.Minute, func() bool { return p.answers.Peer() == addressOf(2) })
	p.run(time.Minute)
	moves := p.answers.Moves()
	var sent, asked int
	for _, attacker := range []netip.AddrPort{addressOf(66), addressOf(1)} { // also its previous address
		for _, each := range slices.Clone(p.captured) {
			asked += len(each.b)
			for _, reply := range p.answers.Outer(p.now, attacker, each.b) {
				sent += len(reply.Bytes)
				p.answers.Outer(p.now, attacker, reply.Bytes) // reflects its messages
			}
		}
		p.run(time.Second)
	}
	p.expect(p.answers.Peer() == addressOf(2) && p.answers.Moves() == moves, "%v", p.answers.Peer())
	p.expect(sent > 0 && sent <= asked, "%d bytes for %d", sent, asked)
}

func TestThePeerMovesDuringAFloodOfReplays(t *testing.T) {
	p := newPair(t, 5).settle()
	p.run(10 * time.Minute)
	replayed := slices.Clone(p.captured[:100])
	p.outside = addressOf(2)
	took := p.until(time.Minute, func() bool {
		for n, each := range replayed {
			p.answers.Outer(p.now, addressOf(byte(100+n)), each.b)
		}
		return p.answers.Peer() == addressOf(2)
	})
	p.expect(took < 5*time.Second, "it took %v", took)
}

// recorded contains earlier questions in their order.
func (p *pair) recorded(count, length int) [][]byte {
	var all [][]byte
	for i := range count {
		at := p.wall().Add(time.Duration(i-count) * hurryEvery)
		m := message{kind: question, length: length, ticket: uint64(at.UnixNano())}
		all = append(all, m.seal(testVNI, testKey))
	}
	return all
}

func TestRecordedQuestionsDoNotStopAMove(t *testing.T) {
	for seed := range int64(3) {
		for _, perSecond := range []int{200, 20_000} {
			for _, agentIsNew := range []bool{false, true} {
				p := newPair(t, seed).settle()
				recorded, sent := p.recorded(10_000, shortest), 0
				replay := func() {
					for range perSecond / 100 {
						p.answers.Outer(p.now, addressOf(byte(100+sent%100)), recorded[sent%len(recorded)])
						sent++
					}
				}
				p.until(3*time.Second+time.Duration(p.random.Intn(1000))*time.Millisecond, func() bool {
					replay()
					return false
				})
				if agentIsNew {
					p.answers = p.made(false)
				}
				p.outside = addressOf(2)
				took := p.until(time.Minute, func() bool {
					replay()
					return p.answers.Peer() == addressOf(2)
				})
				p.expect(took <= 3*time.Second, "it took %v (%d/s, an agent that knows nothing: %v)", took, perSecond, agentIsNew)
			}
		}
	}
}

func TestAnEndWithAClockSetBackIsAdmitted(t *testing.T) {
	p := newPair(t, 17).settle()
	p.clock = -50 * time.Minute
	p.starts = p.made(true)
	p.outside = addressOf(2)
	took := p.until(time.Minute, func() bool { return p.answers.Peer() == addressOf(2) && p.starts.MTU() == 1450 })
	p.expect(took <= 3*time.Second, "it took %v", took)
	p.run(10 * time.Second)
	p.expect(p.alive(), "they do not hear each other")
}

func TestReplaysFromThePeersAddressAreRateLimited(t *testing.T) {
	p := newPair(t, 18).settle()
	recorded := p.recorded(100, 1450)
	answers, silent := 0, 0
	const seconds = 10
	p.until(seconds*time.Second, func() bool {
		for _, each := range recorded {
			answers += len(p.answers.Inner(p.now, each))
		}
		if !p.alive() {
			silent++
		}
		return false
	})
	p.expect(answers > 0 && answers <= maxPerSecond*(seconds+1), "%d answers", answers)
	p.expect(silent == 0, "the true peer is not heard")
}

func TestReplaysDoNotMakeASilentEndLookAlive(t *testing.T) {
	p := newPair(t, 6).settle()
	p.run(time.Minute)
	p.cut = true
	p.run(30 * time.Second)
	for _, each := range slices.Clone(p.captured) {
		p.deliver(each)
		p.starts.Inner(p.now, each.b)
	}
	p.expect(!p.answers.Alive(p.now) && !p.starts.Alive(p.now), "they look alive")
}

func TestNoAnswerIsLongerThanItsQuestion(t *testing.T) {
	p := newPair(t, 14)
	m := message{kind: question, length: 1450, ticket: 1}
	for _, reply := range p.answers.Outer(p.now, addressOf(66), m.seal(testVNI, testKey)) {
		p.expect(len(reply.Bytes) == shortest && reply.To == addressOf(66), "%+v", reply)
	}
	p.expect(len(p.answers.Inner(p.now, m.seal(testVNI, testKey))) == 0, "an answer to nobody")
}
