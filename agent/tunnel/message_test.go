// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"testing"
)

const testVNI = 42

var testKey = bytes.Repeat([]byte{7}, keyBytes)

func TestOpenReversesSeal(t *testing.T) {
	for _, length := range []int{shortest, shortest + 1, 1450, longest} {
		sent := message{kind: answer, length: length, mtu: 1350, ticket: 1 << 63, nonce: nonce{1, 15: 2}}
		if got, ours := open(testVNI, testKey, sent.seal(testVNI, testKey)); !ours || got != sent {
			t.Fatalf("%+v, %v, expected %+v", got, ours, sent)
		}
	}
}

func TestOpenRefusesForgedAndIncompleteMessages(t *testing.T) {
	good := message{kind: question, length: 200, ticket: 3}.seal(testVNI, testKey)
	wrong := map[string][]byte{"nothing": nil, "longer": append(bytes.Clone(good), 0)}
	for n := range good {
		changed := bytes.Clone(good)
		changed[n] ^= 1
		wrong["changed"] = changed
		wrong["shorter"] = good[:n]
		for name, each := range wrong {
			if _, ours := open(testVNI, testKey, each); ours {
				t.Fatalf("%s at %d was taken", name, n)
			}
		}
	}
	other := bytes.Repeat([]byte{8}, keyBytes)
	if _, ours := open(testVNI, other, good); ours {
		t.Fatal("another key's was taken")
	}
	if _, ours := open(testVNI+1, testKey, good); ours {
		t.Fatal("another tunnel's was taken")
	}
	if _, ours := open(testVNI, testKey, message{kind: challenge + 1}.seal(testVNI, testKey)); ours {
		t.Fatal("a kind that is none was taken")
	}
}

func FuzzOpenAcceptsOnlySealedMessages(f *testing.F) {
	good := message{kind: question, length: 100, ticket: 9}.seal(testVNI, testKey)
	f.Add(good)
	f.Add(good[:shortest])
	f.Add([]byte("bct1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ours := open(testVNI, testKey, b)
		if ours && !bytes.Equal(m.seal(testVNI, testKey)[:shortest-32], b[:shortest-32]) {
			t.Fatalf("%x was taken for %+v", b, m)
		}
		for _, starts := range []bool{true, false} {
			e := newPair(t, 1).made(starts)
			before := e.Peer()
			e.Inner(1, b)
			e.Outer(1, addressOf(9), b)
			if _, ever := e.Silence(1); ever || e.Peer() != before {
				t.Fatalf("%x moved or woke an end", b)
			}
		}
	})
}

func FuzzUnwrapStaysWithinThePacket(f *testing.F) {
	for _, six := range []bool{false, true} {
		f.Add(six, make([]byte, 100))
		f.Add(six, bytes.Repeat([]byte{0x4f}, 90))
	}
	f.Fuzz(func(t *testing.T, six bool, b []byte) {
		if from, carried, whole := unwrap(six, b); whole && (!from.IsValid() || len(carried) > len(b)) {
			t.Fatalf("%v, %d bytes of %d", from, len(carried), len(b))
		}
	})
}

func FuzzDecodingNeverPanics(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(_ *testing.T, b []byte) {
		decodeDevice(b)
		decodeEntry(b, 1, 4789)
		decodeRoute(b)
	})
}
