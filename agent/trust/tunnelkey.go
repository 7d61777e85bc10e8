// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// TunnelKey returns the private key for a tunnel of the site, by number. It depends on the identity's private key only, so a
// host has other keys after each join, and the same ones after a restart.
func (i Identity) TunnelKey(number int) (key [32]byte, err error) {
	secret, err := i.Key.ECDH()
	if err != nil {
		return key, err
	}
	derived, err := hkdf.Key(sha256.New, secret.Bytes(), nil, fmt.Sprintf("bicast tunnel %d", number), len(key))
	if err != nil {
		return key, err
	}
	return [32]byte(derived), nil
}
