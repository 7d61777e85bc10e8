package trust

import (
	"crypto/tls"

	"bicast/relay/identity"
)

// Calling is TLS towards the relay of a name: it is shown the agent's certificate, and its own is of the same CA.
func (i Identity) Calling(relay string) *tls.Config {
	return identity.Calling(i.forTLS(), i.Authority(), relay)
}
