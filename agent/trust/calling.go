// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"

	"bicast/internal/mtls"
)

// Calling is TLS towards the relay of a name: it is shown the agent's certificate, and its own is of the same CA, for the one key
// of which this is the SHA-256.
func (i Identity) Calling(relay string, keySum []byte) *tls.Config {
	return mtls.Calling(i.forTLS(), i.Authority(), relay, keySum)
}
