// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"time"

	"bicast/relay/divert"
)

// A host's firewall may drop what nft has led to the proxy, and tells nobody. It is known by so many packets that open connections, over
// so long, of which no connection came.
const (
	barredPackets = 5
	barredAfter   = 5 * time.Second
)

// intake compares what nft leads to the proxy with what comes there.
type intake struct {
	openings, accepted uint64
	since              time.Time // nothing was missing until then
}

// bars tells whether nothing comes of what is led to the proxy.
func (i *intake) bars(openings, accepted uint64, now time.Time) bool {
	if accepted != i.accepted || openings <= i.openings {
		*i = intake{openings, accepted, now}
	}
	return openings-i.openings >= barredPackets && now.Sub(i.since) >= barredAfter
}

// barred is why nothing may come to the proxy; nil: it comes, or nobody opens a connection.
func (s *interception) barred(now time.Time) error {
	var openings uint64
	err := s.within(func() (err error) {
		openings, err = s.proxy.Openings()
		return err
	})
	if err != nil || !s.intake.bars(openings, s.proxy.Accepted(), now) {
		return nil // mend says what is wrong with nft
	}
	return fmt.Errorf("terminals open connections, and none comes to the proxy: a firewall of this host may drop them; have it let in "+
		"what comes by %s", divert.Host(s.wanted.ground.Port))
}
