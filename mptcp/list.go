package mptcp

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const commandSocket = 20 // SOCK_DIAG_BY_FAMILY

// Connections reads every TCP and MPTCP connection of the namespace, MPTCP first, each kind in an order that stays:
// one dump of MPTCP and one of TCP for each address family, joined on the tokens.
func (h *Handle) Connections() ([]Connection, error) {
	whole, err := h.dump(protocolMPTCP)
	if err != nil {
		return nil, err
	}
	parts, err := h.dump(unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	return joined(whole, parts), nil
}

// Subflows reads the MPTCP connections' subflows alone, for who looks many times a second: what is known of a connection
// as a whole is its token and which end asked for it. It leaves out the dump of MPTCP, the dearer one of the two where
// connections are few.
func (h *Handle) Subflows() ([]Connection, error) {
	parts, err := h.dump(unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	return grouped(parts), nil
}

// dump reads the sockets of one protocol, of both address families.
func (h *Handle) dump(protocol uint32) ([]socket, error) {
	var found []socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := h.ask(diagRequest{family: family, protocol: protocol, info: true}, netlink.Dump)
		if err != nil {
			return nil, err
		}
		found = append(found, sockets...)
	}
	return found, nil
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
		if flags == netlink.Dump && request.protocol == protocolMPTCP && errors.Is(err, unix.ENOENT) {
			return nil, &Error{
				Kind: NoMPTCP, What: "this kernel does not list MPTCP connections", Said: err,
				Advice: "load the module mptcp_diag, or boot a kernel with CONFIG_INET_MPTCP_DIAG",
			}
		}
		return nil, refusal("sock_diag did not answer", err)
	}
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
