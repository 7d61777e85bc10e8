// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"net/netip"
	"testing"
	"time"

	"bicast/internal/admission"
)

var here, elsewhere = netip.MustParseAddrPort("10.1.0.1:4000"), netip.MustParseAddrPort("10.1.0.66:4000")

type visit struct {
	t             *testing.T
	authenticator *authenticator
	now           time.Duration

	ticket uint64
}

func newVisit(t *testing.T) *visit {
	d := newAuthenticator(testKey)
	return &visit{t: t, authenticator: &d, now: time.Hour}
}

// opening is fresh.
func (v *visit) opening(session uint32, n nonce) []byte {
	v.ticket++
	return knock{session, n, v.ticket}.seal(&testKey, opens)
}

func (v *visit) probe(session, number uint32) []byte {
	b := make([]byte, 100)
	sealProbe(&testKey, head{session, number}, b)
	return b
}

func (v *visit) request(session, number uint32, length int) []byte {
	return request{head{session, number}, length}.seal(&testKey)
}

// challenged is the nonce that an opening is given.
func (v *visit) challenged(from netip.AddrPort, session uint32) nonce {
	v.t.Helper()
	said := v.authenticator.take(v.now, from, v.opening(session, nonce{}))
	challenge, right := openKnock(&testKey, challenges, said.sendBack)
	if !right || challenge.session != session || said.answers {
		v.t.Fatalf("%+v, expected a challenge", said)
	}
	return challenge.nonce
}

func (v *visit) open(from netip.AddrPort, session uint32) (opening []byte) {
	v.t.Helper()
	opening = v.opening(session, v.challenged(from, session))
	v.answered(from, opening, 0)
	return opening
}

func (v *visit) answered(from netip.AddrPort, b []byte, number uint32) {
	v.t.Helper()
	if said := v.authenticator.take(v.now, from, b); !said.answers || said.to.number != number || said.sendBack != nil {
		v.t.Fatalf("%+v, expected an answer to %d", said, number)
	}
}

// ignored expects that nothing is sent, and who is answered stays.
func (v *visit) ignored(from netip.AddrPort, b []byte) {
	v.t.Helper()
	peer, session, seen := v.authenticator.peer, v.authenticator.session, v.authenticator.seen
	if said := v.authenticator.take(v.now, from, b); said.answers || said.sendBack != nil {
		v.t.Fatalf("%+v, expected nothing", said)
	}
	if v.authenticator.peer != peer || v.authenticator.session != session || v.authenticator.seen != seen {
		v.t.Fatal("it changed something")
	}
}

const floodSeconds = 3

// flooded is how many of a flood in session 7 are answered.
func (v *visit) flooded(packet func(number uint32) []byte) (answers int) {
	v.t.Helper()
	v.open(here, 7)
	const packets = 60_000
	for number := uint32(1); number <= packets; number++ {
		v.now += floodSeconds * time.Second / packets
		if v.authenticator.take(v.now, here, packet(number)).answers {
			answers++
		}
	}
	return answers
}

func TestWhoProvedItsAddressIsAnsweredOnceForEachNumber(t *testing.T) {
	v := newVisit(t)
	v.ignored(here, v.probe(7, 1)) // nothing is open
	v.open(here, 7)
	for _, number := range []uint32{1, 3, 2, 5000} {
		v.answered(here, v.probe(7, number), number)
		v.ignored(here, v.probe(7, number))
	}
	v.ignored(here, v.probe(7, 4)) // far behind
	if c := v.authenticator.counters; c.Replays != 5 || c.Strangers != 1 {
		t.Fatalf("%+v", c)
	}
}

func TestStrangersChangeNothing(t *testing.T) {
	v := newVisit(t)
	v.open(here, 7)
	forged := v.probe(7, 1)
	forged[9] ^= 1
	for _, each := range []struct {
		from netip.AddrPort
		b    []byte
	}{
		{elsewhere, v.probe(7, 1)}, {here, v.probe(8, 1)}, {here, forged}, {here, v.probe(7, 1)[:99]}, {here, nil}, {here, []byte("x")},
		{here, make([]byte, 64)}, {here, answer{head: head{7, 1}}.seal(&testKey)}, {here, knock{session: 7}.seal(&testKey, challenges)},
		{netip.AddrPortFrom(here.Addr(), 4001), v.probe(7, 1)},
	} {
		v.ignored(each.from, each.b)
	}
	if c := v.authenticator.counters; c.Strangers != 10 || c.Answered != 0 {
		t.Fatalf("%+v, expected 10 strangers", c)
	}
	v.answered(here, v.probe(7, 1), 1)
}

func TestALongAnswerIsOnlyForWhoProvedHisAddress(t *testing.T) {
	v := newVisit(t)
	v.ignored(here, v.request(7, 1, 1440))
	v.challenged(here, 7)
	v.ignored(here, v.request(7, 1, 1440)) // he has not heard what was sent there
	v.open(here, 7)
	for n, length := range []int{0, 63, 64, 1440, Longest, Longest + 1, 1<<16 - 1} {
		number := uint32(1 + n)
		b := v.request(7, number, length)
		v.ignored(elsewhere, b)
		v.ignored(netip.AddrPortFrom(here.Addr(), 4001), b)
		v.ignored(here, v.request(8, number, length))
		if length < 64 || length > Longest {
			v.ignored(here, b)
			continue
		}
		if said := v.authenticator.take(v.now, here, b); !said.answers || said.to.length != length || said.to.number != number {
			t.Fatalf("%+v, expected an answer of %d bytes", said, length)
		}
		v.ignored(here, b)
	}
}

func TestWhatAllAnswersHaveTogetherIsBounded(t *testing.T) {
	for _, length := range []int{64, wholeAnswer, 9000, Longest} {
		v := newVisit(t)
		most := (atOnce + floodSeconds*mostASecond) * wholeAnswer / max(length, wholeAnswer)
		answers := v.flooded(func(number uint32) []byte { return v.request(7, number, length) })
		if answers > most || answers < most*9/10 {
			t.Fatalf("%d answers of %d bytes in %d s, expected %d", answers, length, floodSeconds, most)
		}
	}
}

func TestWhatWasRecordedOpensNothing(t *testing.T) {
	v := newVisit(t)
	recorded := v.open(here, 7)
	probe := v.probe(7, 1)
	v.answered(here, probe, 1)
	v.now += occupied
	v.open(elsewhere, 8)
	v.now += occupied
	sentBack := 0
	for range 1000 {
		for _, from := range []netip.AddrPort{here, elsewhere} {
			said := v.authenticator.take(v.now, from, recorded)
			if said.answers {
				t.Fatal("a session is opened again by what was heard of it")
			}
			if said.sendBack != nil {
				sentBack++
			}
			v.ignored(from, probe)
		}
	}
	if sentBack > knocksASecond {
		t.Fatalf("%d challenges were sent for one opening", sentBack)
	}
	v.open(here, 9) // and who has the key loses nothing by it
}

func TestWhoProbesIsNotDisturbedByWhatWasRecordedOfHim(t *testing.T) {
	v := newVisit(t)
	first := v.opening(7, nonce{})
	if said := v.authenticator.take(v.now, here, first); said.sendBack == nil {
		t.Fatalf("%+v, expected a challenge", said)
	}
	second := v.open(here, 7)
	v.answered(here, v.probe(7, 1), 1)
	for range 2 * atOnce { // with his address on it
		v.ignored(here, first)
		v.ignored(here, second)
		v.ignored(elsewhere, first)
	}
	for number := uint32(2); number <= atOnce; number++ {
		v.answered(here, v.probe(7, number), number)
	}
}

func TestAnOpenersClockMayBeBehindAnothers(t *testing.T) {
	v := newVisit(t)
	v.ticket = 1 << 62
	v.open(here, 7)
	v.now += occupied
	v.ticket = 0
	v.open(elsewhere, 8)
}

func TestASessionThatIsSilentForLongEnds(t *testing.T) {
	v := newVisit(t)
	v.open(here, 7)
	v.answered(here, v.probe(7, 1), 1)
	v.now += longestPause * 11 / 10 // as plans may have it
	v.answered(here, v.probe(7, 2), 2)
	v.now += over
	if said := v.authenticator.take(v.now, here, v.probe(7, 3)); said.answers || v.authenticator.session != 0 || v.authenticator.peer.IsValid() {
		t.Fatalf("%+v, %v is still known", said, v.authenticator.peer)
	}
}

func TestANonceIsOfItsAddressAndItsTime(t *testing.T) {
	for name, change := range map[string]func(v *visit) netip.AddrPort{
		"address": func(*visit) netip.AddrPort { return elsewhere },
		"time":    func(v *visit) netip.AddrPort { v.now += 2 * admission.Lasts; return here },
	} {
		v := newVisit(t)
		n := v.challenged(here, 7)
		if said := v.authenticator.take(v.now, change(v), v.opening(7, n)); said.answers || said.sendBack == nil {
			t.Fatalf("with another %s: %+v, expected to be challenged again", name, said)
		}
	}
}

func TestASessionIsItsOwnersWhileHeUsesIt(t *testing.T) {
	v := newVisit(t)
	n := v.challenged(elsewhere, 8)
	opening := v.open(here, 7)
	v.answered(here, opening, 0) // whose answer was lost asks again
	for number := range uint32(10) {
		v.ignored(elsewhere, v.opening(8, n))
		v.answered(here, v.probe(7, number+1), number+1)
		v.now += occupied / 2
	}
	v.ignored(elsewhere, v.opening(8, n))
	v.now += occupied
	v.open(elsewhere, 8)
	v.ignored(here, v.probe(7, 100))
}

func TestASessionHasANumber(t *testing.T) {
	v := newVisit(t)
	v.ignored(here, v.opening(0, nonce{}))
	v.open(here, 7)
}

func TestNoMoreIsAnsweredThanSoMuchASecond(t *testing.T) {
	v := newVisit(t)
	answers := v.flooded(func(number uint32) []byte { return v.probe(7, number) })
	if most := atOnce + floodSeconds*mostASecond; answers > most || answers < most*9/10 {
		t.Fatalf("%d answers in %d s, expected %d", answers, floodSeconds, most)
	}
}
