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

// Token is what `bicast enroll` prints and people carry to the agent.
type Token struct {
	Secret string // for the controller, once
	Pin    Pin    // for us: whom the secret may be told to
}

const secretBytes = 16

var base32Plain = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ParseToken reads SECRET.PIN, each in base32, lower case, without padding.
func ParseToken(text string) (Token, error) {
	secret, pin, found := strings.Cut(strings.TrimSpace(text), ".")
	if !found {
		return Token{}, errors.New("the token has no \".\": expected SECRET.PIN, as `bicast enroll NAME` prints it, whole")
	}
	if raw, err := base32Plain.DecodeString(secret); err != nil || len(raw) != secretBytes {
		return Token{}, fmt.Errorf("the token's part before the \".\" is no secret of %d bits: copy the whole of what "+
			"`bicast enroll NAME` prints", secretBytes*8)
	}
	token := Token{Secret: secret}
	raw, err := base32Plain.DecodeString(pin)
	if err != nil || copy(token.Pin[:], raw) != len(token.Pin) || len(raw) != len(token.Pin) {
		return Token{}, errors.New("the token's part after the \".\" is no fingerprint of a CA: copy the whole of what " +
			"`bicast enroll NAME` prints")
	}
	return token, nil
}

// String is what ParseToken reads.
func (t Token) String() string { return t.Secret + "." + t.Pin.String() }

// String is the pin as it stands in a token.
func (p Pin) String() string { return base32Plain.EncodeToString(p[:]) }
