// SPDX-License-Identifier: Apache-2.0

package bandwidth

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

var testKey = Key{1, 2, 3}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	for _, length := range []int{Shortest, Shortest + 1, 64, 1440, Longest} {
		b := bytes.Repeat([]byte{7}, length)
		sealProbe(&testKey, head{5, 9}, b)
		if h, right := openProbe(&testKey, b); !right || h != (head{5, 9}) || !bytes.Equal(b[headBytes:], bytes.Repeat([]byte{7}, length-headBytes)) {
			t.Fatalf("%d bytes were opened as %v, %v", length, h, right)
		}
	}
	for _, a := range []answer{
		{head{1, 2}, 1_800_000_000_123_456_789, 1, 1_800_000_000_000_000_001, 1440, true, 1 << 62}, {head: head{1<<32 - 1, 1<<32 - 1}, length: 1<<16 - 1},
	} {
		b := a.seal(&testKey)
		if got, right := openAnswer(&testKey, b); !right || got != a || len(b) != answerBytes {
			t.Fatalf("%+v was opened as %+v, %v", a, got, right)
		}
	}
	for _, length := range []int{answerBytes, answerBytes + 1, 1440, Longest} {
		b := bytes.Repeat([]byte{7}, length)
		a := answer{head{5, 9}, 1_800_000_000_123_456_789, 8, 1_800_000_000_000_000_001, length, true, 7}
		got, right := openFilled(&testKey, a.fill(&testKey, b))
		if !right || got != a || !bytes.Equal(b[answerBytes:], bytes.Repeat([]byte{7}, length-answerBytes)) {
			t.Fatalf("%+v of %d bytes was opened as %+v, %v", a, length, got, right)
		}
	}
	for length := range 1 << 16 {
		r := request{head{5, 9}, length}
		b := r.seal(&testKey)
		if got, right := openRequest(&testKey, b); got != r || len(b) != 64 || right != (length >= ShortestDown && length <= Longest) {
			t.Fatalf("%+v was opened as %+v, %v", r, got, right)
		}
	}
	for _, k := range []kind{kindOpening, kindChallenge} {
		sent := handshake{77, nonce{1, 15: 3}, 1<<64 - 2}
		if got, right := openHandshake(&testKey, k, sent.seal(&testKey, k)); !right || got != sent {
			t.Fatalf("%+v was opened as %+v, %v", sent, got, right)
		}
	}
}

// opened returns the kinds that accept these bytes.
func opened(key *Key, b []byte) (as []kind) {
	if _, right := openProbe(key, b); right {
		as = append(as, kindProbe)
	}
	if _, right := openAnswer(key, b); right {
		as = append(as, kindAnswer)
	}
	if _, right := openRequest(key, b); right {
		as = append(as, kindRequest)
	}
	if _, right := openFilled(key, b); right {
		as = append(as, kindLongAnswer)
	}
	for _, k := range []kind{kindOpening, kindChallenge} {
		if _, right := openHandshake(key, k, b); right {
			as = append(as, k)
		}
	}
	return as
}

func TestOpenRejectsTruncatedAndForgedPackets(t *testing.T) {
	probe := make([]byte, answerBytes) // as long as the other kinds
	sealProbe(&testKey, head{5, 9}, probe)
	random := rand.New(rand.NewPCG(1, 2))
	for k, sealed := range map[kind][]byte{
		kindProbe: probe, kindAnswer: answer{head: head{5, 9}, received: 1}.seal(&testKey),
		kindOpening: handshake{session: 5, ticket: 1}.seal(&testKey, kindOpening), kindChallenge: handshake{session: 5, nonce: nonce{9}}.seal(&testKey, kindChallenge),
		kindRequest: request{head{5, 9}, 1440}.seal(&testKey), kindLongAnswer: answer{head: head{5, 9}}.fill(&testKey, make([]byte, 100)),
	} {
		if as := opened(&testKey, sealed); len(as) != 1 || as[0] != k {
			t.Fatalf("kind %d is taken for %v", k, as)
		}
		if as := opened(&Key{}, sealed); as != nil {
			t.Fatalf("kind %d of another key is taken for %v", k, as)
		}
		for length := range sealed {
			if as := opened(&testKey, sealed[:length]); as != nil {
				t.Fatalf("%d bytes of kind %d are taken for %v", length, k, as)
			}
		}
		if as := opened(&testKey, append(bytes.Clone(sealed), 0)); as != nil {
			t.Fatalf("kind %d and a byte are taken for %v", k, as)
		}
		authentic := len(sealed)
		switch k { // the tag does not cover the payload
		case kindProbe:
			authentic = headBytes
		case kindLongAnswer:
			authentic = answerBytes
		}
		for at := range authentic {
			forged := bytes.Clone(sealed)
			forged[at] ^= 1 << random.IntN(8)
			if as := opened(&testKey, forged); as != nil {
				t.Fatalf("kind %d, forged at %d, is taken for %v", k, at, as)
			}
		}
	}
}

func TestOpenRejectsRandomBytes(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for length := range 2000 {
		b := make([]byte, length)
		random.Read(b)
		if as := opened(&testKey, b); as != nil {
			t.Fatalf("%x is taken for %v", b, as)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(handshake{session: 5, ticket: 1}.seal(&testKey, kindOpening))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, k := range opened(&testKey, b) {
			if k == kindAnswer {
				a, _ := openAnswer(&testKey, b)
				if again := a.seal(&testKey); !bytes.Equal(again[:38], b[:38]) && bytes.Equal(again[tagAt:headBytes], b[tagAt:headBytes]) {
					t.Fatalf("%x is sealed as %x", b, again)
				}
			}
		}
	})
}
