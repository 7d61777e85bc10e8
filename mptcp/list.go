// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	commandTCP    = 18 // TCPDIAG_GETSOCK, the older question: it knows no families, so one walk finds the sockets of both
	commandSocket = 20 // SOCK_DIAG_BY_FAMILY

	// For a dump of MPTCP the kernel walks a large table, however few there are: as long as this takes it to answer for
	// so many single connections.
	askedSingly = 64
)

// Connections reads every TCP and MPTCP connection of the namespace, MPTCP first, each kind in an order that stays: a
// dump of TCP, joined on the tokens with what the kernel tells of these. One without a subflow may be left out.
func (h *Handle) Connections() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	whole, err := h.whole(parts)
	if err != nil {
		return nil, err
	}
	return joined(whole, parts), nil
}

// whole reads the MPTCP sockets that these subflows belong to.
func (h *Handle) whole(parts []socket) ([]socket, error) {
	tokens := tokensOf(parts)
	if len(tokens) > askedSingly {
		return h.dumpMPTCP(parts)
	}
	var found []socket
	for _, token := range tokens {
		one, err := h.askToken(token)
		if err != nil && !errors.Is(err, unix.ENOENT) { // it ended between the two questions
			return nil, err
		}
		found = append(found, one...)
	}
	if len(found) == 0 && len(tokens) > 0 { // a kernel that lists none says so to a dump alone
		return h.dumpMPTCP(parts)
	}
	return found, nil
}

func (h *Handle) dumpMPTCP(parts []socket) ([]socket, error) {
	var found []socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if !wanting(parts, found) {
			break
		}
		more, err := h.ask(diagRequest{family: family, protocol: protocolMPTCP, info: true}, netlink.Dump)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// Subflows reads the MPTCP connections' subflows alone, for who looks many times a second: what is known of a connection
// as a whole is its token and which end asked for it.
func (h *Handle) Subflows() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	return grouped(parts), nil
}

// subflows reads every TCP socket.
func (h *Handle) subflows() ([]socket, error) {
	header := netlink.Header{Type: commandTCP, Flags: netlink.Request | netlink.Dump}
	answers, err := h.diag.Execute(netlink.Message{Header: header, Data: everyTCP()})
	if err != nil {
		return nil, refusal("sock_diag did not answer", err)
	}
	return parsed(answers)
}

// askToken reads one MPTCP socket, of either family: the kernel looks for the token where a cookie would be.
func (h *Handle) askToken(token Token) ([]socket, error) {
	return h.ask(diagRequest{family: unix.AF_INET, protocol: protocolMPTCP, info: true, cookie: uint64(token)}, 0)
}

// ask sends one question to sock_diag.
func (h *Handle) ask(request diagRequest, flags netlink.HeaderFlags) ([]socket, error) {
	header := netlink.Header{Type: commandSocket, Flags: netlink.Request | flags}
	answers, err := h.diag.Execute(netlink.Message{Header: header, Data: request.marshal()})
	if err != nil {
		// A family that this kernel was built without has no connections.
		if flags == netlink.Dump && request.family == unix.AF_INET6 && errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		if flags == netlink.Dump && errors.Is(err, unix.ENOENT) {
			return nil, &Error{
				Kind: NoMPTCP, What: "this kernel does not list MPTCP connections", Said: err,
				Advice: "load the module mptcp_diag, or boot a kernel with CONFIG_INET_MPTCP_DIAG",
			}
		}
		return nil, refusal("sock_diag did not answer", err)
	}
	return parsed(answers)
}

func parsed(answers []netlink.Message) ([]socket, error) {
	sockets := make([]socket, 0, len(answers))
	for _, answer := range answers {
		one, err := parseSocket(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "sock_diag's answer cannot be read", Said: err}
		}
		sockets = append(sockets, one)
	}
	return sockets, nil
}
