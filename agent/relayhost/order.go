// SPDX-License-Identifier: Apache-2.0

package relayhost

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/netip"
	"time"

	"bicast/agent/trust"
	"bicast/api/agentv1"
	"bicast/internal/mtls"
	"bicast/internal/plural"
	"bicast/relay/onward"
	"bicast/relay/server"
)

const (
	maxGuests = 1024
	maxRanges = 256
	maxOnward = 64
	maxPort   = 1<<16 - 1
)

// spec is a valid order.
type spec struct {
	port       uint16
	shows      tls.Certificate
	identity   trust.Identity
	guests     mtls.Guests
	reaches    server.Ports
	congestion string
	draining   bool
	onward     []onward.PortForward
}

// parseOrder validates an order.
func (e *Executor) parseOrder(order *agentv1.Relay) (w spec, err error) {
	if w.port, err = port("port", order.GetPort()); err != nil {
		return w, err
	}
	if w.guests, err = guests(order.GetGateways()); err != nil {
		return w, err
	}
	if w.reaches, err = parsePorts(order.GetAllowed()); err != nil {
		return w, err
	}
	if w.onward, err = parseOnward(order.GetOnward(), w.port); err != nil {
		return w, err
	}
	if w.identity, err = e.identity(); err != nil {
		return w, err
	}
	if w.shows, err = w.identity.Serving(order.GetCertificate(), time.Now()); err != nil {
		return w, err
	}
	w.draining = order.GetDraining()
	return w, e.within(func() (err error) {
		w.congestion, err = server.Congestion(order.GetCongestion())
		return err
	})
}

func port(what string, number uint32) (uint16, error) {
	if number == 0 || number > maxPort {
		return 0, fmt.Errorf("%s %d, expected 1 to %d", what, number, maxPort)
	}
	return uint16(number), nil
}

func guests(named []*agentv1.RelayClient) (all mtls.Guests, err error) {
	if len(named) > maxGuests {
		return nil, fmt.Errorf("%s, expected at most %d", plural.Of(len(named), "gateway"), maxGuests)
	}
	seen := map[string]bool{"": true}
	for _, each := range named {
		name, sum := each.GetName(), each.GetKeySha256()
		if seen[name] {
			return nil, fmt.Errorf("the gateway name %q is empty or used twice, expected unique names", name)
		}
		if len(sum) != sha256.Size {
			return nil, fmt.Errorf("gateway %q: key_sha256: %s, expected %d", name, plural.Of(len(sum), "byte"), sha256.Size)
		}
		seen[name] = true
		all = append(all, mtls.Guest{Name: name, KeySum: sum})
	}
	return all, nil
}

func parsePorts(allowed []*agentv1.PortRange) (all server.Ports, err error) {
	if len(allowed) == 0 || len(allowed) > maxRanges {
		return nil, fmt.Errorf("allowed: %s, expected 1 to %d", plural.Of(len(allowed), "range"), maxRanges)
	}
	for _, each := range allowed {
		first, wrong := port("allowed: port", each.GetFirst())
		last, alsoWrong := port("allowed: port", each.GetLast())
		if err := cmp.Or(wrong, alsoWrong); err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("allowed: ports %d to %d, expected the lower one first", first, last)
		}
		all = append(all, server.Span{First: first, Last: last})
	}
	return all, nil
}

func parseOnward(ordered []*agentv1.PortForward, own uint16) (all []onward.PortForward, err error) {
	if len(ordered) > maxOnward {
		return nil, fmt.Errorf("onward: %s, expected at most %d", plural.Of(len(ordered), "way"), maxOnward)
	}
	taken := map[uint16]bool{own: true}
	for _, each := range ordered {
		here, wrong := port("onward: port", each.GetPort())
		there, alsoWrong := port("onward: other port", each.GetOtherPort())
		if err := cmp.Or(wrong, alsoWrong); err != nil {
			return nil, err
		}
		address, err := netip.ParseAddr(each.GetAddress())
		address = address.Unmap()
		if err != nil || !address.IsGlobalUnicast() || address.Zone() != "" {
			return nil, fmt.Errorf("onward: address %q, expected the address of another relay", each.GetAddress())
		}
		if taken[here] {
			return nil, fmt.Errorf("onward: port %d is the relay's own or listed twice, expected a unique port", here)
		}
		taken[here] = true
		all = append(all, onward.PortForward{Port: here, To: netip.AddrPortFrom(address, there)})
	}
	return all, nil
}
