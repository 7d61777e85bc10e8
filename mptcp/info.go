// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// kernelStruct is a kernel structure that newer kernels extend: fields that this kernel lacks read as 0.
type kernelStruct []byte

func (g kernelStruct) u8(at int) uint8 {
	if len(g) < at+1 {
		return 0
	}
	return g[at]
}

func (g kernelStruct) u32(at int) uint32 {
	if len(g) < at+4 {
		return 0
	}
	return binary.NativeEndian.Uint32(g[at:])
}

func (g kernelStruct) u64(at int) uint64 {
	if len(g) < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(g[at:])
}

// subflow decodes struct tcp_info, include/uapi/linux/tcp.h.
func (s socket) subflow() Subflow {
	tcp := kernelStruct(s.info)
	minRTT := tcp.u32(148)
	if minRTT == math.MaxUint32 { // not measured yet
		minRTT = 0
	}
	return Subflow{
		Local:             plainAddress(s.local),
		Remote:            plainAddress(s.remote),
		LocalID:           s.localID,
		RemoteID:          s.remoteID,
		BackupByUs:        s.flags&flagBackupByUs != 0,
		BackupByPeer:      s.flags&flagBackupByPeer != 0,
		Established:       s.state == stateEstablished,
		accepted:          s.flags&flagAccepted != 0,
		SRTT:              time.Duration(tcp.u32(68)) * time.Microsecond,
		RTTVar:            time.Duration(tcp.u32(72)) * time.Microsecond,
		MinRTT:            time.Duration(minRTT) * time.Microsecond,
		CwndSegments:      tcp.u32(80),
		MSSBytes:          tcp.u32(16),
		InFlightSegments:  inFlight(tcp.u32(24), tcp.u32(28), tcp.u32(32), tcp.u32(36)),
		UnackedSegments:   tcp.u32(24),
		DeliveryRateBPS:   tcp.u64(160) * 8,
		SegmentsSent:      uint64(tcp.u32(156)),
		SegmentsDelivered: uint64(tcp.u32(192)),
		Retransmits:       uint64(tcp.u32(100)),
		BytesAcked:        tcp.u64(120),
		BytesReceived:     tcp.u64(128),
		SinceAck:          time.Duration(tcp.u32(56)) * time.Millisecond,
		SinceData:         time.Duration(tcp.u32(52)) * time.Millisecond,
		Cookie:            s.cookie,
		device:            s.device,
		mapped:            s.local.Addr().Is4In6(),
	}
}

// carries tells whether a subflow carries data or will. Closing subflows do not, although their connection may live on.
func (s socket) carries() bool { return 1<<s.state&statesCarrying != 0 }

// inFlight is the kernel's tcp_packets_in_flight(); its counters are not read atomically, so the sum may be negative.
func inFlight(unacked, sacked, lost, retransmitted uint32) uint32 {
	return uint32(max(0, int64(unacked)-int64(sacked)-int64(lost)+int64(retransmitted)))
}

// plainAddress unmaps IPv4: mapping only shows how the socket was opened.
func plainAddress(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// A flag of struct mptcp_info, include/uapi/linux/mptcp.h.
const infoFallback = 1 << 0 // MPTCP_INFO_FLAG_FALLBACK

type connectionInfo struct {
	token         Token
	fallback      bool
	extra         int
	extraMax      int
	counts        bool // the kernel counts bytes per connection (6.5 and newer)
	bytesReceived uint64
	bytesAcked    uint64
}

func (s socket) connection() connectionInfo {
	info := kernelStruct(s.info)
	return connectionInfo{
		token:         Token(info.u32(12)),
		fallback:      info.u32(8)&infoFallback != 0,
		extra:         int(info.u8(0)),
		extraMax:      int(info.u8(3)),
		counts:        len(info) >= 80,
		bytesReceived: info.u64(64),
		bytesAcked:    info.u64(72),
	}
}
