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

// Endpoints are the addresses that the kernel's path manager knows.
func (h *Handle) Endpoints() ([]Endpoint, error) {
	answers, err := h.execute(commandGetEndpoints, netlink.Dump, nil)
	if err != nil {
		return nil, refusal("the endpoints cannot be read", err)
	}
	endpoints := make([]Endpoint, 0, len(answers))
	for _, answer := range answers {
		one, err := decodeEndpoint(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "the kernel's endpoints cannot be read", Said: err}
		}
		endpoints = append(endpoints, one)
	}
	return endpoints, nil
}

// AddEndpoint tells the kernel's path manager an address. With Initiate every live connection under it opens a subflow
// from there at once, also one whose initial subflow is there already; with no flag none does, and the address can be
// flagged all the same.
func (h *Handle) AddEndpoint(e Endpoint) error {
	_, err := h.execute(commandAddEndpoint, netlink.Acknowledge, addressed(e))
	return refusal(fmt.Sprintf("no endpoint could be made of %v", e.Address), err)
}

// DeleteEndpoint makes the kernel's path manager forget an address and close every subflow that uses it. An endpoint
// with ID 0 and an address is that address as the initial one of connections, which need be no endpoint.
func (h *Handle) DeleteEndpoint(e Endpoint) error {
	_, err := h.execute(commandDeleteEndpoint, netlink.Acknowledge, addressed(Endpoint{ID: e.ID, Address: e.Address}))
	return refusal(fmt.Sprintf("the endpoint %v (id %d) could not be deleted", e.Address, e.ID), err)
}

// ReplaceEndpoint deletes an endpoint and makes another of its address, in one breath: both orders go to the kernel in one
// message, which it carries out to its end whatever becomes of us. Were they two, a process killed between them would
// take the path from every connection to come.
func (h *Handle) ReplaceEndpoint(old, again Endpoint) error {
	deletion, err := h.request(commandDeleteEndpoint, addressed(Endpoint{ID: old.ID, Address: old.Address}))
	if err != nil {
		return err
	}
	addition, err := h.request(commandAddEndpoint, addressed(again))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the endpoint %v (id %d) could not be made anew", old.Address, old.ID)
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, h.namespace.config()) // the other's answers come one for one
	if err != nil {
		return refusal(what, err)
	}
	defer conn.Close()
	if _, err := conn.SendMessages([]netlink.Message{deletion, addition}); err != nil {
		return refusal(what, err)
	}
	_, notDeleted := conn.Receive()
	if _, err := conn.Receive(); err != nil {
		return refusal(what, errors.Join(inWords(notDeleted), inWords(err)))
	}
	return nil // that it was gone already is no matter: it is what was asked for now
}

// FlagEndpoint sets or clears Backup of an address that is an endpoint. Every live connection under the kernel's path
// manager that has a subflow from there tells it to its peer; of several such subflows the first is flagged, no other.
func (h *Handle) FlagEndpoint(e Endpoint, backup bool) error {
	flags := e.Flags & FullMesh // an order replaces both flags that can change
	if backup {
		flags |= Backup
	}
	_, err := h.execute(commandSetFlags, netlink.Acknowledge, addressed(Endpoint{Address: e.Address, Port: e.Port, Flags: flags}))
	return refusal(fmt.Sprintf("the endpoint %v could not be flagged", e.Address), err)
}

// Limits of the kernel's path manager.
func (h *Handle) Limits() (Limits, error) {
	answers, err := h.execute(commandGetLimits, 0, nil)
	if err != nil {
		return Limits{}, refusal("the limits cannot be read", err)
	}
	var limits Limits
	for _, answer := range answers {
		if limits, err = decodeLimits(answer.Data); err != nil {
			return Limits{}, &Error{Kind: Malformed, What: "the kernel's limits cannot be read", Said: err}
		}
	}
	return limits, nil
}

// SetLimits replaces both limits. A connection looks at them whenever it would open a subflow.
func (h *Handle) SetLimits(l Limits) error {
	_, err := h.execute(commandSetLimits, netlink.Acknowledge, func(to *netlink.AttributeEncoder) {
		to.Uint32(attributeAddrsLimit, uint32(l.Announced))
		to.Uint32(attributeExtraLimit, uint32(l.Extra))
	})
	return refusal(fmt.Sprintf("the limits could not be set to %d subflows and %d addresses", l.Extra, l.Announced), err)
}

// Which endpoint an address is, where it is one.
func endpointOf(endpoints []Endpoint, address netip.Addr) (Endpoint, bool) {
	for _, one := range endpoints {
		if one.Address == address && one.Port == 0 {
			return one, true
		}
	}
	return Endpoint{}, false
}

// deviceOf is the interface that has an address of ours, for an endpoint from which subflows are opened: where no rule
// goes by our address, routing would have them leave by the first interface. It is 0, where routing leads, for an address
// that no interface has, and for the loopback's, by which nothing leaves.
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
	return index, refusal(fmt.Sprintf("which interface has %v cannot be told", local), err)
}

// indexIfOn is an interface's number if it has the address, else 0.
func indexIfOn(device net.Interface, local netip.Addr) (int32, error) {
	addresses, err := device.Addrs()
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr() == local.WithZone("") {
			return int32(device.Index), nil
		}
	}
	return 0, err
}

// addressed is what an order says of the endpoint that it is about.
func addressed(e Endpoint) func(*netlink.AttributeEncoder) {
	return func(to *netlink.AttributeEncoder) { encodeEndpoint(to, attributeAddress, e) }
}

// execute gives one order to the family, or asks it one question.
func (h *Handle) execute(
	command uint8, flags netlink.HeaderFlags, encode func(*netlink.AttributeEncoder),
) ([]genetlink.Message, error) {
	message, err := h.message(command, encode)
	if err != nil {
		return nil, err
	}
	answers, err := h.genl.Execute(message, h.family.ID, netlink.Request|flags)
	return answers, inWords(err)
}

// request is an order as it goes over a socket that knows no family.
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

// The kernel's sentence, where it gave one, and its errno, without where in our message they belong.
func inWords(err error) error {
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
