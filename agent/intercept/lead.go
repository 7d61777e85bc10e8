// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"context"
	"net/netip"

	"bicast/agent/tunnel"
	"bicast/relay/divert"
)

// redirect sets up devices and nft rules that redirect connections to the proxy.
func (s *interception) redirect(w spec) error {
	order := divert.Order{Except: w.except, Block: w.block, BridgeLink: &w.bridgeLink}
	for _, each := range w.terminals {
		order.BridgeLink.Terminals = append(order.BridgeLink.Terminals, each.addresses...)
		for _, address := range each.addresses {
			order.From = append(order.From, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	for _, each := range w.relays {
		order.Relays = append(order.Relays, each.at.Addr())
	}
	return s.within(func() error {
		made, err := s.proxy.Write(order)
		if err != nil {
			return err
		}
		return s.connect(w.bridgeLink, made)
	})
}

// mend restores rules and routes that another program removed, such as a restarted firewall.
func (s *interception) mend() error {
	var lost string
	err := s.within(func() (err error) {
		lost, err = s.proxy.Lost()
		return err
	})
	if err != nil || lost == "" {
		return err
	}
	s.log.Warn("restoring the redirection of terminals' connections, which another program removed", "lost", lost)
	return s.redirect(s.spec)
}

// connect makes the bridge read replaced devices, and disables offloads so that packets look as on the wire.
func (s *interception) connect(bridgeLink divert.BridgeLink, made []string) error {
	for _, end := range append(bridgeLink.Ends(), bridgeLink.Here()...) {
		if err := tunnel.Plain(here, end); err != nil {
			return err
		}
	}
	for _, port := range made {
		s.part(func(ctx context.Context) { tunnel.Reopened(ctx, s.within, port, s.log) })
	}
	return bridgeLink.Open()
}

func here(work func() error) error { return work() }
