// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	commandTCP    = 18 // TCPDIAG_GETSOCK, the older request: without a family, so one dump has the sockets of both
	commandSocket = 20 // SOCK_DIAG_BY_FAMILY

	// An MPTCP dump walks a large table, however few connections there are: it costs as much as this many single
	// queries.
	maxSingleQueries = 64
)

// Connections reads every TCP and MPTCP connection of the namespace, MPTCP first, in a stable order. It joins a dump of
// TCP with the MPTCP sockets by token. Connections without a subflow may be missing.
func (h *Handle) Connections() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	whole, err := h.whole(parts)
	if err != nil {
		return nil, err
	}
	return joinDumps(whole, parts), nil
}

// whole reads the MPTCP sockets of these subflows.
func (h *Handle) whole(parts []socket) ([]socket, error) {
	tokens := tokensOf(parts)
	if len(tokens) > maxSingleQueries {
		return h.dumpMPTCP(parts)
	}
	var found []socket
	for _, token := range tokens {
		one, err := h.queryToken(token)
		if err != nil && !errors.Is(err, unix.ENOENT) { // it ended between the two requests
			return nil, err
		}
		found = append(found, one...)
	}
	if len(found) == 0 && len(tokens) > 0 { // only a dump fails on a kernel that cannot list MPTCP
		return h.dumpMPTCP(parts)
	}
	return found, nil
}

func (h *Handle) dumpMPTCP(parts []socket) ([]socket, error) {
	var found []socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if !isIncomplete(parts, found) {
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

// Subflows reads the subflows of MPTCP connections alone, for callers that poll often. Of the connections themselves it
// fills in Token and Serves.
func (h *Handle) Subflows() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	return groupByToken(parts), nil
}

// subflows reads every TCP socket.
func (h *Handle) subflows() ([]socket, error) {
	header := netlink.Header{Type: commandTCP, Flags: netlink.Request | netlink.Dump}
	answers, err := h.diag.Execute(netlink.Message{Header: header, Data: dumpTCPRequest()})
	if err != nil {
		return nil, refusal("the sock_diag query failed", err)
	}
	return parseSockets(answers)
}

// queryToken reads one MPTCP socket of either family: in the cookie field the kernel expects the token.
func (h *Handle) queryToken(token Token) ([]socket, error) {
	return h.ask(diagRequest{family: unix.AF_INET, protocol: protocolMPTCP, info: true, cookie: uint64(token)}, 0)
}

// ask sends one request to sock_diag.
func (h *Handle) ask(request diagRequest, flags netlink.HeaderFlags) ([]socket, error) {
	header := netlink.Header{Type: commandSocket, Flags: netlink.Request | flags}
	answers, err := h.diag.Execute(netlink.Message{Header: header, Data: request.marshal()})
	if err != nil {
		// The kernel was built without this family.
		if flags == netlink.Dump && request.family == unix.AF_INET6 && errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		if flags == netlink.Dump && errors.Is(err, unix.ENOENT) {
			return nil, &Error{
				Kind: NoMPTCP, What: "this kernel cannot list MPTCP connections", Cause: err,
				Advice: "load the module mptcp_diag, or boot a kernel with CONFIG_INET_MPTCP_DIAG",
			}
		}
		return nil, refusal("the sock_diag query failed", err)
	}
	return parseSockets(answers)
}

func parseSockets(answers []netlink.Message) ([]socket, error) {
	sockets := make([]socket, 0, len(answers))
	for _, answer := range answers {
		one, err := parseSocket(answer.Data)
		if err != nil {
			return nil, &Error{Kind: Malformed, What: "cannot decode sock_diag's answer", Cause: err}
		}
		sockets = append(sockets, one)
	}
	return sockets, nil
}
