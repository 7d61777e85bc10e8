// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"time"

	"bicast/relay/divert"
)

// A firewall of the host may silently drop connections that nft redirects to the proxy. The agent reports it after this
// many SYNs within this time without an accepted connection.
const (
	blockedSYNs  = 5
	blockedAfter = 5 * time.Second
)

// intake compares the SYNs that nft redirects to the proxy with the connections that the proxy accepts.
type intake struct {
	openings, accepted uint64
	since              time.Time // the last time without a missing connection
}

// blocked reports whether the proxy accepts nothing of what nft redirects.
func (i *intake) blocked(openings, accepted uint64, now time.Time) bool {
	if accepted != i.accepted || openings <= i.openings {
		*i = intake{openings, accepted, now}
	}
	return openings-i.openings >= blockedSYNs && now.Sub(i.since) >= blockedAfter
}

// checkFirewall returns an error if a firewall seems to block the proxy.
func (s *interception) checkFirewall(now time.Time) error {
	var openings uint64
	err := s.within(func() (err error) {
		openings, err = s.proxy.Openings()
		return err
	})
	if err != nil || !s.intake.blocked(openings, s.proxy.Accepted(), now) {
		return nil // mend reports failures of nft
	}
	return fmt.Errorf("terminals open connections, but none reaches the proxy: a firewall of this host may drop them; allow input "+
		"from %s", divert.Host(s.spec.bridgeLink.Port))
}
