// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"bicast/agent/internal/controllertest"
	"bicast/internal/mtls"
)

func TestARelayIsVerifiedByItsPinnedKey(t *testing.T) {
	b := controllertest.New(t)
	identity, err := join(t, b, "home", b.Token("home"))
	if err != nil {
		t.Fatal(err)
	}
	shown := tls.ConnectionState{PeerCertificates: []*x509.Certificate{identity.Certificate}}
	pinned := mtls.KeySum(identity.Certificate)
	if err := identity.Calling("tokyo", pinned).VerifyConnection(shown); err != nil {
		t.Fatalf("the pinned key is refused: %v", err)
	}
	pinned[0] ^= 1
	if identity.Calling("tokyo", pinned).VerifyConnection(shown) == nil {
		t.Fatal("another key than the pinned one is taken")
	}
}
