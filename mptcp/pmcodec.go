// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Commands and attributes of the family mptcp_pm: include/uapi/linux/mptcp_pm.h.
const (
	commandAddEndpoint    = 1
	commandDeleteEndpoint = 2
	commandGetEndpoints   = 3
	commandSetLimits      = 5
	commandGetLimits      = 6
	commandSetFlags       = 7
	commandRemove         = 9
	commandCreate         = 10
	commandDestroy        = 11

	attributeAddress    = 1 // nested
	attributeAddrsLimit = 2
	attributeExtraLimit = 3
	attributeToken      = 4
	attributeLocalID    = 5
	attributeRemote     = 6 // nested

	addressFamily    = 1
	addressID        = 2
	addressIPv4      = 3
	addressIPv6      = 4
	addressPort      = 5 // in host order here, in network order in events
	addressFlags     = 6
	addressInterface = 7
)

// EndpointFlags control what the kernel's path manager does with an endpoint.
type EndpointFlags uint32

// The flags of an endpoint.
const (
	Signal   EndpointFlags = 1 << 0 // announced to peers
	Initiate EndpointFlags = 1 << 1 // opens subflows ("subflow")
	Backup   EndpointFlags = 1 << 2 // its subflows are backup
	FullMesh EndpointFlags = 1 << 3 // opens subflows to each address of the peer
	Implicit EndpointFlags = 1 << 4 // made by the kernel itself, for an address in use by a subflow
)

// Endpoint is an address of the namespace as the kernel's path manager knows it.
type Endpoint struct {
	ID        uint8
	Address   netip.Addr
	Port      uint16 // 0: any
	Flags     EndpointFlags
	Interface int32 // 0: routing decides
}

// encodeEndpoint writes an address into an order. Zero fields are left out.
func encodeEndpoint(to *netlink.AttributeEncoder, attribute uint16, e Endpoint) {
	to.Nested(attribute, func(nested *netlink.AttributeEncoder) error {
		if e.Address.Is4() {
			nested.Uint16(addressFamily, unix.AF_INET)
			nested.Bytes(addressIPv4, e.Address.AsSlice())
		} else if e.Address.Is6() {
			nested.Uint16(addressFamily, unix.AF_INET6)
			nested.Bytes(addressIPv6, e.Address.AsSlice())
		}
		if e.ID != 0 {
			nested.Uint8(addressID, e.ID)
		}
		if e.Port != 0 {
			nested.Uint16(addressPort, e.Port)
		}
		if e.Flags != 0 {
			nested.Uint32(addressFlags, uint32(e.Flags))
		}
		if e.Interface != 0 {
			nested.Int32(addressInterface, e.Interface)
		}
		return nil
	})
}

func decodeEndpoint(b []byte) (Endpoint, error) {
	var e Endpoint
	outer, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return e, fmt.Errorf("an endpoint's attributes: %w", err)
	}
	for outer.Next() {
		if outer.Type() == attributeAddress {
			outer.Nested(e.decode)
		}
	}
	if err := outer.Err(); err != nil {
		return e, fmt.Errorf("an endpoint's attributes: %w", err)
	}
	return e, nil
}

func (e *Endpoint) decode(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case addressID:
			e.ID = attributes.Uint8()
		case addressIPv4, addressIPv6:
			attributes.Do(func(b []byte) error { return decodeAddress(b, &e.Address) })
		case addressPort:
			e.Port = attributes.Uint16()
		case addressFlags:
			e.Flags = EndpointFlags(attributes.Uint32())
		case addressInterface:
			e.Interface = attributes.Int32()
		}
	}
	return attributes.Err()
}

func decodeAddress(b []byte, into *netip.Addr) error {
	address, ok := netip.AddrFromSlice(b)
	if !ok {
		return fmt.Errorf("an address of %d bytes, expected 4 or 16", len(b))
	}
	*into = address
	return nil
}

// Limits are those of the kernel's path manager, per connection. The kernel's maximum is 8.
type Limits struct {
	Extra     int // subflows beside the initial one
	Announced int // addresses of the peer that it uses ("add_addr_accepted")
}

func decodeLimits(b []byte) (Limits, error) {
	var l Limits
	attributes, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return l, fmt.Errorf("the limits' attributes: %w", err)
	}
	for attributes.Next() {
		switch attributes.Type() {
		case attributeAddrsLimit:
			l.Announced = int(attributes.Uint32())
		case attributeExtraLimit:
			l.Extra = int(attributes.Uint32())
		}
	}
	if err := attributes.Err(); err != nil {
		return l, fmt.Errorf("the limits' attributes: %w", err)
	}
	return l, nil
}
