// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"net/netip"
	"testing"
	"time"

	"bicast/internal/admission"
)

var near, elsewhere = netip.MustParseAddrPort("10.1.0.1:4000"), netip.MustParseAddrPort("10.1.0.66:4000")

type bench struct {
	t             *testing.T
	authenticator *authenticator
	now           time.Duration

	ticket uint64
}

func newBench(t *testing.T) *bench {
	d := newAuthenticator(testKey)
	return &bench{t: t, authenticator: &d, now: time.Hour}
}

func (v *bench) judgeOpening(session uint32, n nonce) []byte {
	v.ticket++
	return handshake{session, n, v.ticket}.seal(&testKey, kindOpening)
}

func (v *bench) probe(session, number uint32) []byte {
	b := make([]byte, 100)
	sealProbe(&testKey, head{session, number}, b)
	return b
}

func (v *bench) request(session, number uint32, length int) []byte {
	return request{head{session, number}, length}.seal(&testKey)
}

// challenged sends an opening and returns the nonce of the challenge.
func (v *bench) challenged(from netip.AddrPort, session uint32) nonce {
	v.t.Helper()
	said := v.authenticator.judge(v.now, from, v.judgeOpening(session, nonce{}))
	challenge, right := openHandshake(&testKey, kindChallenge, said.sendBack)
	if !right || challenge.session != session || said.answers {
		v.t.Fatalf("%+v, expected a challenge", said)
	}
	return challenge.nonce
}

func (v *bench) open(from netip.AddrPort, session uint32) (judgeOpening []byte) {
	v.t.Helper()
	judgeOpening = v.judgeOpening(session, v.challenged(from, session))
	v.answered(from, judgeOpening, 0)
	return judgeOpening
}

func (v *bench) answered(from netip.AddrPort, b []byte, number uint32) {
	v.t.Helper()
	if said := v.authenticator.judge(v.now, from, b); !said.answers || said.to.number != number || said.sendBack != nil {
		v.t.Fatalf("%+v, expected an answer to %d", said, number)
	}
}

// ignored requires that a packet has no effect.
func (v *bench) ignored(from netip.AddrPort, b []byte) {
	v.t.Helper()
	peer, session, seen := v.authenticator.peer, v.authenticator.session, v.authenticator.seen
	if said := v.authenticator.judge(v.now, from, b); said.answers || said.sendBack != nil {
		v.t.Fatalf("%+v, expected nothing", said)
	}
	if v.authenticator.peer != peer || v.authenticator.session != session || v.authenticator.seen != seen {
		v.t.Fatal("an ignored packet changed the session")
	}
}

const floodSeconds = 3

// flooded returns how many packets of a flood in session 7 are answered.
func (v *bench) flooded(packet func(number uint32) []byte) (answers int) {
	v.t.Helper()
	v.open(near, 7)
	const packets = 60_000
	for number := uint32(1); number <= packets; number++ {
		v.now += floodSeconds * time.Second / packets
		if v.authenticator.judge(v.now, near, packet(number)).answers {
			answers++
		}
	}
	return answers
}

func TestAuthenticatorAnswersEachNumberOnce(t *testing.T) {
	v := newBench(t)
	v.ignored(near, v.probe(7, 1)) // no session is open
	v.open(near, 7)
	for _, number := range []uint32{1, 3, 2, 5000} {
		v.answered(near, v.probe(7, number), number)
		v.ignored(near, v.probe(7, number))
	}
	v.ignored(near, v.probe(7, 4)) // behind the window
	if c := v.authenticator.counters; c.Replays != 5 || c.Unauthenticated != 1 {
		t.Fatalf("%+v", c)
	}
}

func TestAuthenticatorIgnoresInvalidPackets(t *testing.T) {
	v := newBench(t)
	v.open(near, 7)
	broken := v.probe(7, 1)
	broken[9] ^= 1
	for _, each := range []struct {
		from netip.AddrPort
		b    []byte
	}{
		{elsewhere, v.probe(7, 1)}, {near, v.probe(8, 1)}, {near, broken}, {near, v.probe(7, 1)[:99]}, {near, nil}, {near, []byte("x")},
		{near, make([]byte, 64)}, {near, answer{head: head{7, 1}}.seal(&testKey)}, {near, handshake{session: 7}.seal(&testKey, kindChallenge)},
		{netip.AddrPortFrom(near.Addr(), 4001), v.probe(7, 1)},
	} {
		v.ignored(each.from, each.b)
	}
	if c := v.authenticator.counters; c.Unauthenticated != 10 || c.Answered != 0 {
		t.Fatalf("%+v, expected 10 strangers", c)
	}
	v.answered(near, v.probe(7, 1), 1)
}

func TestLongAnswersNeedAProvedAddress(t *testing.T) {
	v := newBench(t)
	v.ignored(near, v.request(7, 1, 1440))
	v.challenged(near, 7)
	v.ignored(near, v.request(7, 1, 1440)) // the sender has not received the challenge
	v.open(near, 7)
	for n, length := range []int{0, 63, 64, 1440, Longest, Longest + 1, 1<<16 - 1} {
		number := uint32(1 + n)
		b := v.request(7, number, length)
		v.ignored(elsewhere, b)
		v.ignored(netip.AddrPortFrom(near.Addr(), 4001), b)
		v.ignored(near, v.request(8, number, length))
		if length < 64 || length > Longest {
			v.ignored(near, b)
			continue
		}
		if said := v.authenticator.judge(v.now, near, b); !said.answers || said.to.length != length || said.to.number != number {
			t.Fatalf("%+v, expected an answer of %d bytes", said, length)
		}
		v.ignored(near, b)
	}
}

func TestBytesOfAllAnswersAreLimited(t *testing.T) {
	for _, length := range []int{64, wholeAnswer, 9000, Longest} {
		v := newBench(t)
		most := (answerBurst + floodSeconds*answersPerSecond) * wholeAnswer / max(length, wholeAnswer)
		answers := v.flooded(func(number uint32) []byte { return v.request(7, number, length) })
		if answers > most || answers < most*9/10 {
			t.Fatalf("%d answers of %d bytes in %d s, expected %d", answers, length, floodSeconds, most)
		}
	}
}

func TestRecordedPacketsOpenNoSession(t *testing.T) {
	v := newBench(t)
	recorded := v.open(near, 7)
	probe := v.probe(7, 1)
	v.answered(near, probe, 1)
	v.now += occupied
	v.open(elsewhere, 8)
	v.now += occupied
	sentBack := 0
	for range 1000 {
		for _, from := range []netip.AddrPort{near, elsewhere} {
			said := v.authenticator.judge(v.now, from, recorded)
			if said.answers {
				t.Fatal("a recorded session was opened again")
			}
			if said.sendBack != nil {
				sentBack++
			}
			v.ignored(from, probe)
		}
	}
	if sentBack > openingsPerSecond {
		t.Fatalf("%d challenges were sent for one opening", sentBack)
	}
	v.open(near, 9) // the key holder can still open
}

func TestRecordedPacketsDoNotDisturbAProbe(t *testing.T) {
	v := newBench(t)
	first := v.judgeOpening(7, nonce{})
	if said := v.authenticator.judge(v.now, near, first); said.sendBack == nil {
		t.Fatalf("%+v, expected a challenge", said)
	}
	second := v.open(near, 7)
	v.answered(near, v.probe(7, 1), 1)
	for range 2 * answerBurst { // with the prober's source address
		v.ignored(near, first)
		v.ignored(near, second)
		v.ignored(elsewhere, first)
	}
	for number := uint32(2); number <= answerBurst; number++ {
		v.answered(near, v.probe(7, number), number)
	}
}

func TestOpeningWorksWhenAClockIsBehind(t *testing.T) {
	v := newBench(t)
	v.ticket = 1 << 62
	v.open(near, 7)
	v.now += occupied
	v.ticket = 0
	v.open(elsewhere, 8)
}

func TestSessionEndsAfterSilence(t *testing.T) {
	v := newBench(t)
	v.open(near, 7)
	v.answered(near, v.probe(7, 1), 1)
	v.now += longestPause * 11 / 10 // longer than any plan's pause
	v.answered(near, v.probe(7, 2), 2)
	v.now += forgetAfter
	if said := v.authenticator.judge(v.now, near, v.probe(7, 3)); said.answers || v.authenticator.session != 0 || v.authenticator.peer.IsValid() {
		t.Fatalf("%+v, %v is still known", said, v.authenticator.peer)
	}
}

func TestNonceIsBoundToAddressAndTime(t *testing.T) {
	for name, change := range map[string]func(v *bench) netip.AddrPort{
		"address": func(*bench) netip.AddrPort { return elsewhere },
		"time":    func(v *bench) netip.AddrPort { v.now += 2 * admission.Lasts; return near },
	} {
		v := newBench(t)
		n := v.challenged(near, 7)
		if said := v.authenticator.judge(v.now, change(v), v.judgeOpening(7, n)); said.answers || said.sendBack == nil {
			t.Fatalf("with another %s: %+v, expected to be challenged again", name, said)
		}
	}
}

func TestSessionIsExclusiveWhileInUse(t *testing.T) {
	v := newBench(t)
	n := v.challenged(elsewhere, 8)
	judgeOpening := v.open(near, 7)
	v.answered(near, judgeOpening, 0) // repeated, because the answer was lost
	for number := range uint32(10) {
		v.ignored(elsewhere, v.judgeOpening(8, n))
		v.answered(near, v.probe(7, number+1), number+1)
		v.now += occupied / 2
	}
	v.ignored(elsewhere, v.judgeOpening(8, n))
	v.now += occupied
	v.open(elsewhere, 8)
	v.ignored(near, v.probe(7, 100))
}

func TestOpeningNeedsASessionNumber(t *testing.T) {
	v := newBench(t)
	v.ignored(near, v.judgeOpening(0, nonce{}))
	v.open(near, 7)
}

func TestRateOfAnswersIsLimited(t *testing.T) {
	v := newBench(t)
	answers := v.flooded(func(number uint32) []byte { return v.probe(7, number) })
	if most := answerBurst + floodSeconds*answersPerSecond; answers > most || answers < most*9/10 {
		t.Fatalf("%d answers in %d s, expected %d", answers, floodSeconds, most)
	}
}
