// SPDX-License-Identifier: Apache-2.0

package mtls_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"bicast/internal/mtls"
	"bicast/internal/mtls/mtlstest"
)

func TestGuestsAcceptOnlyTheValidCertificate(t *testing.T) {
	pair, _, err := mtlstest.New(t).Gateway("home", time.Hour).Load()
	if err != nil {
		t.Fatal(err)
	}
	sum, other := mtls.KeySum(pair.Leaf), make([]byte, sha256.Size)
	for guest, name := range map[*mtls.Guest]string{
		{Name: "home", KeySum: sum}: "home", {Name: "home"}: "home",
		{Name: "home", KeySum: other}: "", {Name: "cabin", KeySum: sum}: "",
	} {
		if known := (mtls.Guests{*guest}).Name(pair.Leaf); known != name {
			t.Errorf("%+v is known as %q, expected %q", guest, known, name)
		}
	}
}
