// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants of sock_diag: include/uapi/linux/inet_diag.h and mptcp.h.
const (
	protocolMPTCP = 262

	requestProtocol = 3  // INET_DIAG_REQ_PROTOCOL, u32: 262 exceeds the header's byte
	attributeInfo   = 2  // INET_DIAG_INFO
	attributeULP    = 19 // INET_DIAG_ULP_INFO
	ulpMPTCP        = 3  // INET_ULP_INFO_MPTCP

	subflowToken    = 2  // MPTCP_SUBFLOW_ATTR_TOKEN_LOC
	subflowFlags    = 8  // MPTCP_SUBFLOW_ATTR_FLAGS
	subflowRemoteID = 9  // MPTCP_SUBFLOW_ATTR_ID_REM
	subflowLocalID  = 10 // MPTCP_SUBFLOW_ATTR_ID_LOC

	flagCapableLocal = 1 << 1 // MPTCP_SUBFLOW_FLAG_MCAP_LOC: this end opened the connection
	flagJoinLocal    = 1 << 3 // MPTCP_SUBFLOW_FLAG_JOIN_LOC: this end opened the subflow
	flagCapable      = 1 << 0 // MPTCP_SUBFLOW_FLAG_MCAP_REM
	flagBackupByPeer = 1 << 4
	flagBackupByUs   = 1 << 5
	flagAccepted     = 1 << 6 // MPTCP_SUBFLOW_FLAG_FULLY_ESTABLISHED

	requestBytes      = 56 // struct inet_diag_req_v2
	olderRequestBytes = 60 // struct inet_diag_req
	messageBytes      = 72 // struct inet_diag_msg

	stateEstablished = 1
	stateSynSent     = 2
	stateListen      = 10
	statesCarrying   = 1<<stateEstablished | 1<<stateSynSent | 1<<3 // SYN_RECV
	// Without TIME_WAIT, CLOSE and NEW_SYN_RECV, which belong to no process.
	statesAlive = statesCarrying | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<stateListen | 1<<11
)

// diagRequest asks sock_diag for every socket, or for the one with this identity.
type diagRequest struct {
	family   uint8
	protocol uint32
	info     bool
	local    netip.AddrPort
	remote   netip.AddrPort
	device   uint32 // a bound socket is found by its device alone
	cookie   uint64
}

func (r diagRequest) marshal() []byte {
	b := make([]byte, requestBytes, requestBytes+8)
	b[0] = r.family
	b[1] = uint8(min(r.protocol, 255))
	if r.info {
		b[2] = 1 << (attributeInfo - 1)
	}
	native := binary.NativeEndian
	native.PutUint32(b[4:], statesAlive)
	if r.local.IsValid() {
		binary.BigEndian.PutUint16(b[8:], r.local.Port())
		binary.BigEndian.PutUint16(b[10:], r.remote.Port())
		copy(b[12:28], r.local.Addr().AsSlice())
		copy(b[28:44], r.remote.Addr().AsSlice())
	}
	native.PutUint32(b[44:], r.device)
	native.PutUint32(b[48:], uint32(r.cookie))
	native.PutUint32(b[52:], uint32(r.cookie>>32))
	if r.protocol > 255 {
		b = native.AppendUint16(b, 8)
		b = native.AppendUint16(b, requestProtocol)
		b = native.AppendUint32(b, r.protocol)
	}
	return b
}

// dumpTCPRequest requests each TCP socket of either family: struct inet_diag_req, the rest zero.
func dumpTCPRequest() []byte {
	b := make([]byte, olderRequestBytes)
	b[3] = 1 << (attributeInfo - 1)
	binary.NativeEndian.PutUint32(b[52:], statesAlive)
	return b
}

// socket is sock_diag's answer for a subflow or a connection.
type socket struct {
	state         uint8
	local, remote netip.AddrPort // as in the kernel, IPv4 mapped into IPv6 too
	device        uint32         // ifindex that it is bound to, or 0
	cookie        uint64
	inode         uint64
	info          []byte // struct tcp_info or mptcp_info, of this kernel's length
	token         Token
	flags         uint32
	localID       uint8
	remoteID      uint8
}

func parseSocket(b []byte) (socket, error) {
	if len(b) < messageBytes {
		return socket{}, fmt.Errorf("a socket of %d bytes, expected at least %d", len(b), messageBytes)
	}
	native := binary.NativeEndian
	s := socket{
		state:  b[1],
		device: native.Uint32(b[40:]),
		cookie: uint64(native.Uint32(b[44:])) | uint64(native.Uint32(b[48:]))<<32,
		inode:  uint64(native.Uint32(b[68:])),
	}
	var local, remote netip.Addr
	switch b[0] {
	case unix.AF_INET:
		local, remote = netip.AddrFrom4([4]byte(b[8:])), netip.AddrFrom4([4]byte(b[24:]))
	case unix.AF_INET6:
		local, remote = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return socket{}, fmt.Errorf("a socket of address family %d, expected %d or %d", b[0], unix.AF_INET, unix.AF_INET6)
	}
	s.local = netip.AddrPortFrom(local, binary.BigEndian.Uint16(b[4:]))
	s.remote = netip.AddrPortFrom(remote, binary.BigEndian.Uint16(b[6:]))
	attributes, err := netlink.NewAttributeDecoder(b[messageBytes:])
	if err != nil {
		return socket{}, fmt.Errorf("a socket's attributes: %w", err)
	}
	for attributes.Next() {
		switch attributes.Type() {
		case attributeInfo:
			s.info = attributes.Bytes()
		case attributeULP:
			attributes.Nested(s.parseULP)
		}
	}
	if err := attributes.Err(); err != nil {
		return socket{}, fmt.Errorf("a socket's attributes: %w", err)
	}
	return s, nil
}

func (s *socket) parseULP(ulp *netlink.AttributeDecoder) error {
	for ulp.Next() {
		if ulp.Type() == ulpMPTCP {
			ulp.Nested(s.parseSubflow)
		}
	}
	return ulp.Err()
}

func (s *socket) parseSubflow(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case subflowToken:
			s.token = Token(attributes.Uint32())
		case subflowFlags:
			s.flags = attributes.Uint32()
		case subflowRemoteID:
			s.remoteID = attributes.Uint8()
		case subflowLocalID:
			s.localID = attributes.Uint8()
		}
	}
	return attributes.Err()
}
