// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"net/netip"
	"testing"
	"time"

	"bicast/internal/admission"
)

var (
	near     = netip.MustParseAddrPort("192.0.2.1:5000")
	stranger = netip.MustParseAddrPort("192.0.2.66:5000")

	elsewhere = netip.MustParseAddrPort("198.51.100.1:5000")
	otherPort = netip.MustParseAddrPort("192.0.2.1:5001")
)

// opened returns an authenticator with one session for testKey.
func opened(t *testing.T, stateful bool) *authenticator {
	d := newAuthenticator(862)
	if err := d.open(Session{ID: 9, Key: testKey, Stateful: stateful}); err != nil {
		t.Fatal(err)
	}
	return &d
}

func question(number uint32) []byte { return Packet{Number: number, Session: 9, Time: 1}.Seal(testKey) }

// asks returns the number of the answer, or -1.
func (d *authenticator) asks(now time.Duration, from netip.AddrPort, b []byte) int {
	_, answer, ok := d.answer(now, from, b)
	if !ok {
		return -1
	}
	return int(answer.Number)
}

func expect[T comparable](t *testing.T, got, expected T) {
	t.Helper()
	if got != expected {
		t.Fatalf("%v, expected %v", got, expected)
	}
}

func TestAnswerNumbersAreOwnWhenStateful(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		d := opened(t, stateful)
		for i, number := range []uint32{5, 7, 6} {
			want := int(number)
			if stateful {
				want = i
			}
			expect(t, d.asks(0, near, question(number)), want)
		}
	}
}

func TestAuthenticatorIgnoresUnknownSessions(t *testing.T) {
	d := opened(t, true)
	expect(t, d.asks(0, near, Packet{Number: 1, Session: 8}.Seal(testKey)), -1)
	expect(t, d.asks(0, near, Packet{Number: 1}.Seal(nil)), -1)
	expect(t, d.counts, Counts{Strange: 2})
}

func TestSessionFollowsTheAddressOfTheHighestNumber(t *testing.T) {
	d := opened(t, true)
	forged := question(9)
	forged[100] ^= 1
	expect(t, d.asks(0, stranger, forged), -1)
	for i, each := range []struct {
		from     netip.AddrPort
		number   uint32
		answered bool
	}{
		{near, 1, true}, {stranger, 1, false}, {elsewhere, 5, true}, {near, 3, false}, {stranger, 5, false}, {elsewhere, 3, true},
		{otherPort, 6, true}, {elsewhere, 4, false}, {near, 7, true}, {near, 4, true},
	} {
		if got := d.asks(0, each.from, question(each.number)) >= 0; got != each.answered {
			t.Fatalf("%d: number %d from %v was answered: %v", i, each.number, each.from, got)
		}
	}
	expect(t, d.counts, Counts{Answered: 6, Forged: 1, Strange: 2, Replayed: 2})
}

func TestSessionKeepsAConfiguredAddress(t *testing.T) {
	d := newAuthenticator(862)
	if err := d.open(Session{ID: 9, Key: testKey, From: near.Addr()}); err != nil {
		t.Fatal(err)
	}
	expect(t, d.asks(0, stranger, question(9)), -1)
	expect(t, d.asks(0, near, question(1)), 1)
	expect(t, d.asks(0, elsewhere, question(3)), -1)
	expect(t, d.asks(0, otherPort, question(2)), 2) // the NAT mapping has changed
	expect(t, d.asks(0, near, question(0)), -1)
	expect(t, d.counts, Counts{Answered: 2, Strange: 3})
}

func TestAddressMayHaveSessionsWithAndWithoutAKey(t *testing.T) {
	d := opened(t, true)
	if err := d.open(Session{From: near.Addr()}); err != nil {
		t.Fatal(err)
	}
	forged := question(1)
	forged[100] ^= 1
	for i, each := range []struct {
		b    []byte
		from *sender
	}{
		{question(0), d.byID[9]}, {Packet{Number: 7}.Seal(nil), d.byAddress[near.Addr()]}, {question(1), d.byID[9]},
		{append(Packet{Number: 8}.Seal(nil), make([]byte, 500)...), d.byAddress[near.Addr()]}, // no session with a key has this ID
		{forged, d.byAddress[near.Addr()]}, // the tag may be another sender's padding
		{question(1), nil},
	} {
		if s, _, _ := d.answer(0, near, each.b); s != each.from {
			t.Fatalf("%d: it was answered by %+v, expected %+v", i, s, each.from)
		}
	}
	expect(t, d.counts, Counts{Answered: 5, Replayed: 1})
}

func TestAuthenticatorAnswersEachNumberOnce(t *testing.T) {
	d := opened(t, true)
	for i, each := range []struct {
		number   uint32
		answered bool
	}{
		{0, true}, {0, false}, {3, true}, {1, true}, {3, false}, {1, false}, {2, true},
		{admission.Remembered + 2, true}, {2, false}, {3, false}, {4, true}, {4, false}, // numbers behind the window count as replays
		{10 * admission.Remembered, true}, {9*admission.Remembered + 1, true}, {9*admission.Remembered + 1, false}, {9 * admission.Remembered, false}, {admission.Remembered + 2, false},
		{1<<32 - 1, true}, {1<<32 - 1, false}, {0, false},
	} {
		if got := d.asks(0, near, question(each.number)) >= 0; got != each.answered {
			t.Fatalf("%d: number %d was answered: %v", i, each.number, got)
		}
	}
}

func TestAuthenticatorLimitsTheRateOfAnswers(t *testing.T) {
	d := opened(t, true)
	for number := range uint32(3 * answersPerSecond) {
		d.asks(0, near, question(number))
	}
	expect(t, d.counts, Counts{Answered: answersPerSecond, TooMany: 2 * answersPerSecond})
	expect(t, d.asks(time.Second, near, question(2*answersPerSecond)), answersPerSecond)
}

func TestSessionWithoutAKeyNeedsAnAddress(t *testing.T) {
	d := newAuthenticator(862)
	if err := d.open(Session{}); err == nil {
		t.Fatal("a session without a key and an address was opened")
	}
	if err := d.open(Session{From: near.Addr()}); err != nil {
		t.Fatal(err)
	}
	b := Packet{Number: 4}.Seal(nil)
	expect(t, d.asks(0, near, b), 4)
	expect(t, d.asks(0, stranger, b), -1)
	expect(t, d.asks(0, near, b[:len(b)-1]), -1)                      // the shortest TWAMP packet is shorter than an answer
	expect(t, d.asks(0, netip.AddrPortFrom(near.Addr(), 862), b), -1) // looks like an answer of another reflector: a loop
	expect(t, d.counts, Counts{Answered: 1, Strange: 2, Short: 1})
	d.drop(Session{From: near.Addr()})
	expect(t, d.asks(0, near, b), -1)
}

func TestOpenRefusesAShortKey(t *testing.T) {
	d := newAuthenticator(862)
	if err := d.open(Session{Key: []byte{}}); err == nil {
		t.Fatal("a session with an empty key was opened")
	}
}

func TestAnswerIsNotLongerThanThePacket(t *testing.T) {
	for _, key := range [][]byte{nil, testKey} {
		expect(t, len(Answer{}.Seal(key)), len(Packet{}.Seal(key)))
	}
	expect(t, [2]int{len(Packet{}.Seal(nil)), len(Packet{}.Seal(testKey))}, [2]int{44, 112})
}
