// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// Pin is the SHA-256 of the DER of a CA's certificate.
type Pin [sha256.Size]byte

// Token is the text that `bicast enroll` prints for an agent.
type Token struct {
	Secret string // valid once
	Pin    Pin    // the CA of the only controller that may get the secret
}

const secretBytes = 16

var base32Plain = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ParseToken reads SECRET.PIN, each in base32, lower case, without padding.
func ParseToken(text string) (Token, error) {
	secret, pin, found := strings.Cut(strings.TrimSpace(text), ".")
	if !found {
		return Token{}, errors.New("the token has no \".\": copy all of SECRET.PIN that `bicast enroll NAME` prints")
	}
	if raw, err := base32Plain.DecodeString(secret); err != nil || len(raw) != secretBytes {
		return Token{}, fmt.Errorf("the token's part before the \".\" is not a secret of %d bits: copy the whole token that "+
			"`bicast enroll NAME` prints", secretBytes*8)
	}
	token := Token{Secret: secret}
	raw, err := base32Plain.DecodeString(pin)
	if err != nil || copy(token.Pin[:], raw) != len(token.Pin) || len(raw) != len(token.Pin) {
		return Token{}, errors.New("the token's part after the \".\" is not a fingerprint of a CA: copy the whole token that " +
			"`bicast enroll NAME` prints")
	}
	return token, nil
}

// String returns the text that ParseToken reads.
func (t Token) String() string { return t.Secret + "." + t.Pin.String() }

// String returns the pin in the format of a token.
func (p Pin) String() string { return base32Plain.EncodeToString(p[:]) }
