// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/rand"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var here = netip.MustParseAddrPort("192.0.2.1:4000")

func TestProofKnowsANonceByAddressSessionAndAge(t *testing.T) {
	const now = time.Hour + 7*time.Second
	p := NewProof(rand.Reader)
	n := p.Nonce(now, here, 7)
	for _, later := range []time.Duration{0, Lasts} {
		if !p.Knows(now+later, here, 7, n) {
			t.Fatalf("it is not known %v later", later)
		}
	}
	another := n
	another[15] ^= 1
	elsewhere := NewProof(rand.Reader)
	for name, known := range map[string]bool{
		"another address": p.Knows(now, netip.MustParseAddrPort("192.0.2.2:4000"), 7, n),
		"another port":    p.Knows(now, netip.MustParseAddrPort("192.0.2.1:4001"), 7, n),
		"another session": p.Knows(now, here, 8, n),
		"another nonce":   p.Knows(now, here, 7, another),
		"another secret":  elsewhere.Knows(now, here, 7, n),
		"none":            p.Knows(now, here, 7, Nonce{}),
		"long after":      p.Knows(now+2*Lasts, here, 7, n),
		"before":          p.Knows(now-Lasts, here, 7, n),
	} {
		if known {
			t.Errorf("%s is known", name)
		}
	}
	p.Void()
	if p.Knows(now, here, 7, n) {
		t.Error("what was voided is known")
	}
	if n = p.Nonce(now, here, 7); !p.Knows(now, here, 7, n) {
		t.Error("what was handed out after that is not known")
	}
}

func TestNewProofPanicsWithoutRandomNumbers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a secret was made of nothing")
		}
	}()
	NewProof(strings.NewReader("few"))
}
