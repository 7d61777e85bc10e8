package mptcp

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const commandSocket = 20 // SOCK_DIAG_BY_FAMILY

// Connections reads every TCP and MPTCP connection of the namespace, MPTCP first, each kind in an order that stays:
// dumps of TCP and of MPTCP, joined on the tokens.
func (h *Handle) Connections() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	var whole []socket
	// For a dump of MPTCP the kernel walks a large table, however few there are: none more than it takes to find the
	// connections of all tokens.
	for _, family := range families {
		if !wanting(parts, whole) {
			break
		}
		found, err := h.dump(family, protocolMPTCP)
		if err != nil {
			return nil, err
		}
		whole = append(whole, found...)
	}
	return joined(whole, parts), nil
}

// Subflows reads the MPTCP connections' subflows alone, for who looks many times a second: what is known of a connection
// as a whole is its token and which end asked for it. It leaves out the dump of MPTCP, the dearer one of the two where
// connections are few.
func (h *Handle) Subflows() ([]Connection, error) {
	parts, err := h.subflows()
	if err != nil {
		return nil, err
	}
	return grouped(parts), nil
}

var families = []uint8{unix.AF_INET, unix.AF_INET6}

// subflows reads every TCP socket.
func (h *Handle) subflows() ([]socket, error) {
	var found []socket
	for _, family := range families {
		sockets, err := h.dump(family, unix.IPPROTO_TCP)
		if err != nil {
			return nil, err
		}
		found = append(found, sockets...)
	}
	return found, nil
}

func (h *Handle) dump(family uint8, protocol uint32) ([]socket, error) {
	return h.ask(diagRequest{family: family, protocol: protocol, info: true}, netlink.Dump)
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
