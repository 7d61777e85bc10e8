// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"

	"bicast/internal/mtls"
)

// Calling returns the TLS configuration for connections to a relay. The agent shows its certificate. The relay's
// certificate must be of the same CA and for the key with this SHA-256.
func (i Identity) Calling(relay string, keySum []byte) *tls.Config {
	return mtls.Calling(i.forTLS(), i.Authority(), relay, keySum)
}
