// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"math/rand"
	"net/netip"
	"testing"
	"time"
)

const far = 99 // the number of its address

func addressOf(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 4790)
}

// pair is a starting end behind a NAT and an answering end, in virtual time.
type pair struct {
	t       testing.TB
	random  *rand.Rand
	now     time.Duration
	starts  *End
	answers *End
	outside netip.AddrPort // the starting end's address behind the NAT
	back    netip.AddrPort // the source of answers that the NAT admits
	clock   time.Duration  // offset of the starting end

	loss     float64 // each way
	mtu      [2]int  // up, down
	delay    time.Duration
	cut      bool
	flying   []packet
	captured []packet // packets that reached the far end
}

type packet struct {
	at   time.Duration
	up   bool
	from netip.AddrPort
	to   netip.AddrPort
	b    []byte
}

func newPair(t testing.TB, seed int64) *pair {
	p := &pair{
		t: t, random: rand.New(rand.NewSource(seed)), now: time.Hour, outside: addressOf(1), back: addressOf(1),
		mtu: [2]int{1450, 1450}, delay: 20 * time.Millisecond,
	}
	p.starts, p.answers = p.made(true), p.made(false)
	return p
}

func (p *pair) made(starts bool) *End {
	settings := Settings{VNI: testVNI, Key: testKey, Starts: starts, SearchEvery: searchInterval, Random: p.random, Wall: p.wall}
	if starts {
		settings.Peer = addressOf(far)
	}
	e := NewEnd(settings)
	e.Ceiling(1450)
	return e
}

// wall returns the starting end's clock.
func (p *pair) wall() time.Time { return time.Unix(1_800_000_000, 0).Add(p.now + p.clock) }

// run advances the time.
func (p *pair) run(d time.Duration) { p.until(d, func() bool { return false }) }

// until advances the time until a condition holds, and returns how long that took.
func (p *pair) until(most time.Duration, so func() bool) time.Duration {
	begun := p.now
	for ; p.now-begun < most && !so(); p.now += 10 * time.Millisecond {
		p.send(true, p.starts.Tick(p.now+p.clock))
		p.send(false, p.answers.Tick(p.now))
		var still []packet
		arrived := p.flying
		p.flying = nil
		for _, each := range arrived {
			if each.at > p.now {
				still = append(still, each)
				continue
			}
			p.arrive(each)
		}
		p.flying = append(p.flying, still...)
	}
	return p.now - begun
}

func (p *pair) send(up bool, sends []Send) {
	for _, each := range sends {
		mtu, from, to := p.mtu[0], p.outside, each.To
		if !up {
			mtu, from = p.mtu[1], addressOf(far)
			if !to.IsValid() {
				to = p.answers.Peer()
			}
		} else {
			p.back = p.outside
		}
		if len(each.Bytes) > mtu || p.cut || p.random.Float64() < p.loss {
			continue
		}
		p.flying = append(p.flying, packet{p.now + p.delay, up, from, to, each.Bytes})
	}
}

func (p *pair) arrive(each packet) {
	switch {
	case each.up:
		p.captured = append(p.captured, each)
		p.deliver(each)
	case each.to == p.back:
		p.send(true, p.starts.Inner(p.now+p.clock, each.b))
	}
}

// deliver acts as the far end's kernel: the agent sees every packet, and the pin admits those of the peer.
func (p *pair) deliver(each packet) {
	pinned := p.answers.Peer()
	p.send(false, p.answers.Outer(p.now, each.from, each.b))
	if each.from == pinned {
		p.send(false, p.answers.Inner(p.now, each.b))
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
	p.expect(p.alive() && p.answers.Peer() == p.outside, "the ends have not found each other")
	return p
}

func TestTheEndsConnectAndMeasureTheMTU(t *testing.T) {
	p := newPair(t, 1)
	took := p.until(time.Minute, func() bool { return p.alive() && p.starts.MTU() == 1450 && p.answers.MTU() == 1450 })
	p.expect(took < 2500*time.Millisecond, "it took %v", took)
	p.expect(p.answers.Moves() == 0, "the first place of the other end is no move")
	p.expect(p.starts.RTT() >= 2*p.delay && p.starts.RTT() <= 2*p.delay+20*time.Millisecond, "%v", p.starts.RTT())
}

func TestAMovedEndIsFollowedWithin3s(t *testing.T) {
	for seed := range int64(20) {
		p := newPair(t, seed).settle()
		p.run(time.Duration(p.random.Intn(3000)) * time.Millisecond)
		p.outside = addressOf(2)
		took := p.until(time.Minute, func() bool { return p.answers.Peer() == addressOf(2) })
		p.expect(took < 1500*time.Millisecond && p.answers.Moves() == 1, "it took %v, %d moves", took, p.answers.Moves())
	}
}

func TestAChangeOfTheUnderlayIsFollowedAtOnce(t *testing.T) {
	p := newPair(t, 1).settle()
	p.run(100 * time.Millisecond)
	p.outside = addressOf(2)
	p.starts.Changed(p.now)
	took := p.until(time.Minute, func() bool { return p.answers.Peer() == addressOf(2) })
	p.expect(took <= 4*p.delay+100*time.Millisecond, "it took %v", took)
}

func TestAForgetfulNATIsFollowedDespiteLoss(t *testing.T) {
	p := newPair(t, 3)
	p.loss = 0.2
	p.settle()
	for n := range byte(20) {
		p.outside = netip.AddrPortFrom(p.outside.Addr(), 20000+uint16(n)) // another port
		took := p.until(time.Minute, func() bool { return p.answers.Peer() == p.outside })
		p.expect(took < 15*time.Second, "it took %v", took)
		p.run(time.Second)
	}
	p.expect(p.answers.Moves() == 20, "%d moves, expected 20", p.answers.Moves())
}

func TestARestartedFarEndIsFoundWithAndWithoutItsState(t *testing.T) {
	for _, knows := range []bool{false, true} {
		p := newPair(t, 7).settle()
		p.answers = p.made(false)
		if knows {
			p.answers = NewEnd(Settings{VNI: testVNI, Key: testKey, Peer: p.outside, Random: p.random})
		}
		took := p.until(time.Minute, func() bool { return p.answers.Alive(p.now) && p.answers.MTU() == 1450 })
		p.expect(took < 3*time.Second && p.answers.Peer() == p.outside, "it took %v", took)
	}
}

func TestARestartedEndIsHeardAtOnce(t *testing.T) {
	p := newPair(t, 8).settle()
	p.starts = p.made(true)
	took := p.until(time.Minute, func() bool { return p.alive() && p.starts.MTU() == 1450 })
	p.expect(took < 2*time.Second && p.answers.Moves() == 0, "it took %v", took)
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
	p.outside = addressOf(2)
	took := p.until(time.Minute, func() bool { return p.answers.Peer() == addressOf(2) })
	p.expect(took < 3*time.Second, "it took %v", took)
	p.run(10 * time.Second)
	p.expect(p.alive(), "they do not hear each other")
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
	p.outside, p.mtu = addressOf(2), [2]int{1450, 1450}
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
