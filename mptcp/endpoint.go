// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Endpoints returns the addresses that the kernel's path manager knows.
func (h *Handle) Endpoints() ([]Endpoint, error) {
	answers, err := h.execute(commandGetEndpoints, netlink.Dump, nil)
	if err != nil {
		return nil, refusal("cannot read the endpoints", err)
	}
	endpoints := make([]Endpoint, 0, len(answers))
	for _, answer := range answers {
		one, err := decodeEndpoint(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "cannot decode the kernel's list of endpoints", Cause: err}
		}
		endpoints = append(endpoints, one)
	}
	return endpoints, nil
}

// AddEndpoint adds an address to the kernel's path manager. With Initiate every live connection under it opens a
// subflow from there at once, even if its initial subflow is there already. Without flags none does, but it can be
// flagged later.
func (h *Handle) AddEndpoint(e Endpoint) error {
	_, err := h.execute(commandAddEndpoint, netlink.Acknowledge, endpointAttribute(e))
	return refusal(fmt.Sprintf("cannot add the endpoint %v", e.Address), err)
}

// DeleteEndpoint deletes an address from the kernel's path manager and closes every subflow that uses it. ID 0 with an
// address means connections' initial address, which need not be an endpoint.
func (h *Handle) DeleteEndpoint(e Endpoint) error {
	_, err := h.execute(commandDeleteEndpoint, netlink.Acknowledge, endpointAttribute(Endpoint{ID: e.ID, Address: e.Address}))
	return refusal(fmt.Sprintf("cannot delete the endpoint %v (id %d)", e.Address, e.ID), err)
}

// ReplaceEndpoint deletes an endpoint and adds another with its address. Both orders are in one message, which the
// kernel completes even if this process dies. Killed between two messages, it would deprive new connections of the
// path.
func (h *Handle) ReplaceEndpoint(old, again Endpoint) error {
	deletion, err := h.request(commandDeleteEndpoint, endpointAttribute(Endpoint{ID: old.ID, Address: old.Address}))
	if err != nil {
		return err
	}
	addition, err := h.request(commandAddEndpoint, endpointAttribute(again))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("cannot replace the endpoint %v (id %d)", old.Address, old.ID)
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, h.namespace.config()) // not h.genl, which expects one answer per order
	if err != nil {
		return refusal(what, err)
	}
	defer conn.Close()
	if _, err := conn.SendMessages([]netlink.Message{deletion, addition}); err != nil {
		return refusal(what, err)
	}
	_, notDeleted := conn.Receive()
	if _, err := conn.Receive(); err != nil {
		return refusal(what, errors.Join(withMessage(notDeleted), withMessage(err)))
	}
	return nil // a failed deletion does not matter: the new endpoint is there
}

// FlagEndpoint sets or clears Backup of an endpoint. Every live connection under the kernel's path manager with a
// subflow from there notifies its peer. Of several such subflows in a connection the kernel flags the first only.
func (h *Handle) FlagEndpoint(e Endpoint, backup bool) error {
	flags := e.Flags & FullMesh // the order replaces both changeable flags
	if backup {
		flags |= Backup
	}
	_, err := h.execute(commandSetFlags, netlink.Acknowledge, endpointAttribute(Endpoint{Address: e.Address, Port: e.Port, Flags: flags}))
	return refusal(fmt.Sprintf("cannot change the flags of the endpoint %v", e.Address), err)
}

// Limits returns the limits of the kernel's path manager.
func (h *Handle) Limits() (Limits, error) {
	answers, err := h.execute(commandGetLimits, 0, nil)
	if err != nil {
		return Limits{}, refusal("cannot read the limits", err)
	}
	var limits Limits
	for _, answer := range answers {
		if limits, err = decodeLimits(answer.Data); err != nil {
			return Limits{}, &Error{Kind: Malformed, What: "cannot decode the kernel's limits", Cause: err}
		}
	}
	return limits, nil
}

// SetLimits replaces both limits. The kernel checks them whenever a connection would open a subflow.
func (h *Handle) SetLimits(l Limits) error {
	_, err := h.execute(commandSetLimits, netlink.Acknowledge, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeAddrsLimit, uint32(l.Announced))
		to.Uint32(attributeExtraLimit, uint32(l.Extra))
	})
	return refusal(fmt.Sprintf("cannot set the limits to %d subflows and %d addresses", l.Extra, l.Announced), err)
}

// endpointOf returns the endpoint of an address, if there is one.
func endpointOf(endpoints []Endpoint, address netip.Addr) (Endpoint, bool) {
	for _, one := range endpoints {
		if one.Address == address && one.Port == 0 {
			return one, true
		}
	}
	return Endpoint{}, false
}

// deviceOf returns the interface with a local address, for endpoints that open subflows: without a routing rule for the
// address, they would leave over the default route. It returns 0 (let routing decide) if no interface has the address,
// or the loopback.
func (h *Handle) deviceOf(local netip.Addr) (index int32, err error) {
	err = h.Do(func() error {
		devices, err := net.Interfaces()
		for _, device := range devices {
			if device.Flags&net.FlagLoopback != 0 {
				continue
			}
			if index, err = indexIfOn(device, local); err != nil || index != 0 {
				return err
			}
		}
		return err
	})
	return index, refusal(fmt.Sprintf("cannot find the interface with the address %v", local), err)
}

// indexIfOn returns the ifindex if the interface has the address, else 0.
func indexIfOn(device net.Interface, local netip.Addr) (int32, error) {
	addresses, err := device.Addrs()
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr() == local.WithZone("") {
			return int32(device.Index), nil
		}
	}
	return 0, err
}

// endpointAttribute encodes the endpoint that an order is about.
func endpointAttribute(e Endpoint) func(*netlink.AttributeEncoder) {
	return func(to *netlink.AttributeEncoder) { encodeEndpoint(to, attributeAddress, e) }
}

// execute sends one order or query to the family mptcp_pm.
func (h *Handle) execute(
	command uint8, flags netlink.HeaderFlags, encode func(*netlink.AttributeEncoder),
) ([]genetlink.Message, error) {
	message, err := h.message(command, encode)
	if err != nil {
		return nil, err
	}
	answers, err := h.genl.Execute(message, h.family.ID, netlink.Request|flags)
	return answers, withMessage(err)
}

// request encodes an order for a plain netlink socket.
func (h *Handle) request(command uint8, encode func(*netlink.AttributeEncoder)) (netlink.Message, error) {
	message, err := h.message(command, encode)
	if err != nil {
		return netlink.Message{}, err
	}
	data, err := message.MarshalBinary()
	header := netlink.Header{Type: netlink.HeaderType(h.family.ID), Flags: netlink.Request | netlink.Acknowledge}
	return netlink.Message{Header: header, Data: data}, err
}

func (h *Handle) message(command uint8, encode func(*netlink.AttributeEncoder)) (genetlink.Message, error) {
	attributes := netlink.NewAttributeEncoder()
	if encode != nil {
		encode(attributes)
	}
	data, err := attributes.Encode()
	header := genetlink.Header{Command: command, Version: h.family.Version}
	return genetlink.Message{Header: header, Data: data}, err
}

// withMessage returns the kernel's extended message, if any, and its errno, without the offset into our message.
func withMessage(err error) error {
	var said *netlink.OpError
	if !errors.As(err, &said) {
		return err
	}
	var number unix.Errno
	if errors.As(said.Err, &number) {
		err = number
	}
	if said.Message != "" {
		return fmt.Errorf("%s: %w", said.Message, err)
	}
	return err
}
