// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

// pair is a starting and an answering end, in virtual time.
type pair struct {
	t       testing.TB
	random  *rand.Rand
	now     time.Duration
	starts  *End
	answers *End
	clock   time.Duration // offset of the starting end

	loss   float64 // each way
	mtu    [2]int  // up, down
	delay  time.Duration
	cut    bool
	flying []packet
}

type packet struct {
	at      time.Duration
	up      bool
	message message
}

func newPair(t testing.TB, seed int64) *pair {
	p := &pair{
		t: t, random: rand.New(rand.NewSource(seed)), now: time.Hour, mtu: [2]int{1450, 1450}, delay: 20 * time.Millisecond,
	}
	p.starts, p.answers = p.made(true), p.made(false)
	return p
}

func (p *pair) made(starts bool) *End {
	e := NewEnd(starts, searchInterval)
	e.Ceiling(1450)
	return e
}

// run advances the time.
func (p *pair) run(d time.Duration) { p.until(d, func() bool { return false }) }

// until advances the time until a condition holds, and returns how long that took.
func (p *pair) until(most time.Duration, so func() bool) time.Duration {
	begun := p.now
	for ; p.now-begun < most && !so(); p.now += 10 * time.Millisecond {
		p.send(true, p.starts.Tick(p.now+p.clock))
		p.send(false, p.answers.Tick(p.now))
		arrived := p.flying
		p.flying = nil
		for _, each := range arrived {
			switch {
			case each.at > p.now:
				p.flying = append(p.flying, each)
			case each.up:
				p.send(false, p.answers.Receive(p.now, each.message.encode()))
			default:
				p.send(true, p.starts.Receive(p.now+p.clock, each.message.encode()))
			}
		}
	}
	return p.now - begun
}

func (p *pair) send(up bool, messages []message) {
	mtu := p.mtu[0]
	if !up {
		mtu = p.mtu[1]
	}
	for _, each := range messages {
		if each.length <= mtu && !p.cut && p.random.Float64() >= p.loss {
			p.flying = append(p.flying, packet{p.now + p.delay, up, each})
		}
	}
}

func (p *pair) alive() bool { return p.starts.Alive(p.now+p.clock) && p.answers.Alive(p.now) }

func (p *pair) expect(is bool, format string, values ...any) {
	p.t.Helper()
	if !is {
		p.t.Fatalf("at %v: %s", p.now-time.Hour, fmt.Sprintf(format, values...))
	}
}

func (p *pair) settle() *pair {
	p.t.Helper()
	p.until(time.Minute, func() bool { return p.alive() && p.starts.MTU() != 0 && p.answers.MTU() != 0 })
	p.expect(p.alive(), "the ends have not found each other")
	return p
}

func TestTheEndsConnectAndMeasureTheMTU(t *testing.T) {
	p := newPair(t, 1)
	took := p.until(time.Minute, func() bool { return p.alive() && p.starts.MTU() == 1450 && p.answers.MTU() == 1450 })
	p.expect(took < 2500*time.Millisecond, "it took %v", took)
	p.expect(p.starts.RTT() >= 2*p.delay && p.starts.RTT() <= 2*p.delay+20*time.Millisecond, "%v", p.starts.RTT())
}

func TestAChangeOfTheUnderlayIsShownAtOnce(t *testing.T) {
	p := newPair(t, 1).settle()
	p.run(100 * time.Millisecond)
	p.starts.Changed(p.now)
	took := p.until(time.Minute, func() bool {
		silence, _ := p.answers.Silence(p.now)
		return silence <= 10*time.Millisecond
	})
	p.expect(took <= p.delay+100*time.Millisecond, "it took %v", took)
}

func TestARestartedFarEndIsFound(t *testing.T) {
	p := newPair(t, 7).settle()
	p.answers = p.made(false)
	took := p.until(time.Minute, func() bool { return p.answers.Alive(p.now) && p.answers.MTU() == 1450 })
	p.expect(took < 3*time.Second, "it took %v", took)
}

func TestARestartedEndIsHeardAtOnce(t *testing.T) {
	p := newPair(t, 8).settle()
	p.starts = p.made(true)
	took := p.until(time.Minute, func() bool { return p.alive() && p.starts.MTU() == 1450 })
	p.expect(took < 2*time.Second, "it took %v", took)
}

func TestAnEndIsDeadAfter3sButNotAfterSomeLoss(t *testing.T) {
	p := newPair(t, 15).settle()
	p.run(time.Minute)
	p.cut = true
	took := p.until(time.Minute, func() bool { return !p.starts.Alive(p.now) && !p.answers.Alive(p.now) })
	p.expect(took <= deadAfter+time.Second, "it took %v", took)
	p.cut, p.loss = false, 0.2
	p.settle()
	silent := 0
	for range 600 {
		if p.run(time.Second); !p.alive() {
			silent++
		}
	}
	p.expect(silent <= 6, "silent in %d of 600 s", silent)
}

func TestHurriedQuestionsToADeadEndStop(t *testing.T) {
	p := newPair(t, 16).settle()
	p.cut = true
	p.run(time.Minute)
	asked := 0
	for range 6000 {
		asked += len(p.starts.Tick(p.now))
		p.now += 10 * time.Millisecond
	}
	p.expect(asked >= 59 && asked <= 61, "%d questions a minute", asked)
}

func TestAClockSetBackDoesNotStopTheEnd(t *testing.T) {
	p := newPair(t, 9).settle()
	p.clock = -50 * time.Minute
	for range 100 {
		p.run(100 * time.Millisecond)
		p.expect(p.alive(), "they do not hear each other")
	}
}

func TestTheSearchFindsTheMTUWithoutICMP(t *testing.T) {
	for _, lengths := range [][2]int{{1449, 1450}, {1450, 1442}, {1350, 1350}, {1280, 1400}, {577, 600}, {100, 1450}} {
		for _, loss := range []float64{0, 0.01, 0.2} {
			p := newPair(t, 10)
			p.mtu, p.loss = lengths, loss
			p.settle()
			took := p.until(5*time.Minute, func() bool { return p.answers.MTU() == p.starts.MTU() })
			expected := min(lengths[0], lengths[1])
			p.expect(p.starts.MTU() == expected, "%d bytes after %v, expected %d (loss %v)", p.starts.MTU(), took, expected, loss)
		}
	}
}

func TestMTUFollowsAPathThatShrinksAndGrows(t *testing.T) {
	p := newPair(t, 11).settle()
	p.mtu = [2]int{1350, 1450}
	p.until(20*time.Second, func() bool { return p.starts.MTU() == 0 })
	p.expect(p.starts.MTU() == 0, "a length that no longer passes is still reported: %d", p.starts.MTU())
	took := p.until(time.Minute, func() bool { return p.starts.MTU() != 0 && p.answers.MTU() == p.starts.MTU() })
	p.expect(p.starts.MTU() == 1350, "%d bytes after %v", p.starts.MTU(), took)
	p.mtu = [2]int{1450, 1450}
	p.run(searchInterval + 5*time.Second)
	p.expect(p.starts.MTU() == 1450 && p.answers.MTU() == 1450, "%d bytes, expected 1450", p.starts.MTU())
}

func TestAMoveRestartsTheMTUSearch(t *testing.T) {
	p := newPair(t, 12)
	p.mtu = [2]int{1300, 1300}
	p.settle()
	p.answers.Moved()
	p.mtu = [2]int{1450, 1450}
	p.run(5 * time.Second)
	p.expect(p.starts.MTU() == 1450, "%d bytes, expected 1450", p.starts.MTU())
}

func TestADeadPathDoesNotChangeTheMTU(t *testing.T) {
	p := newPair(t, 13).settle()
	p.cut = true
	p.run(5 * time.Minute)
	p.expect(!p.alive() && p.starts.MTU() == 1450, "%d bytes", p.starts.MTU())
	p.cut = false
	p.run(3 * time.Second)
	p.expect(p.alive() && p.starts.MTU() == 1450, "%d bytes", p.starts.MTU())
}
