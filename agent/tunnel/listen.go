// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	ethernetBytes = 14
	udpBytes      = 8
	vxlanBytes    = 8
	sixBytes      = 40 // of an IPv6 header
	packetBytes   = 1 << 16
	queueBytes    = 1 << 18            // of a socket: the kernel drops the rest of a flood
	packetType    = 1<<32 - 0x1000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE, linux/filter.h
)

// toTheBridge is the address of the nearest bridge (IEEE 802.1Q), which no bridge forwards.
var toTheBridge = []byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// filter is a classic BPF program that accepts packets which match all conditions.
type filter struct{ program []unix.SockFilter }

func (f *filter) load(code uint16, from uint32) { f.add(unix.BPF_LD|code, from) }
func (f *filter) add(code uint16, k uint32) {
	f.program = append(f.program, unix.SockFilter{Code: code, K: k})
}

// equal requires that the loaded value is k. none requires that it has none of the bits.
func (f *filter) equal(k uint32) { f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k) }
func (f *filter) none(bits uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, bits)
}

// done completes the program: each failed condition jumps to the end.
func (f *filter) done() []unix.SockFilter {
	f.add(unix.BPF_RET|unix.BPF_K, packetBytes)
	f.add(unix.BPF_RET|unix.BPF_K, 0)
	for i := range f.program {
		to := uint8(len(f.program) - 2 - i)
		switch f.program[i].Code {
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			f.program[i].Jf = to
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			f.program[i].Jt = to
		}
	}
	return f.program
}

func (f *filter) kind(is uint32) {
	f.load(unix.BPF_B|unix.BPF_ABS, packetType)
	f.equal(is)
}

// messageStart matches the start of a message. A flood of other packets costs only this comparison.
func (f *filter) messageStart(at uint32, mode uint16) {
	f.load(unix.BPF_H|mode, at-2)
	f.equal(etherType)
	f.load(unix.BPF_W|mode, at)
	f.equal(binary.BigEndian.Uint32(magic[:]))
}

// questions matches packets to this host with the tunnel's UDP port and VNI that may carry a message.
func questions(six bool, udpPort uint16, vni uint32) []unix.SockFilter {
	var f filter
	f.kind(unix.PACKET_HOST)
	if six {
		f.load(unix.BPF_B|unix.BPF_ABS, 6)
		f.equal(unix.IPPROTO_UDP)
		f.add(unix.BPF_LDX|unix.BPF_W|unix.BPF_IMM, sixBytes)
	} else {
		f.load(unix.BPF_B|unix.BPF_ABS, 9)
		f.equal(unix.IPPROTO_UDP)
		f.load(unix.BPF_H|unix.BPF_ABS, 6)
		f.none(0x3fff) // more fragments, or not the first
		f.add(unix.BPF_LDX|unix.BPF_B|unix.BPF_MSH, 0)
	}
	f.load(unix.BPF_H|unix.BPF_IND, 2)
	f.equal(uint32(udpPort))
	f.load(unix.BPF_W|unix.BPF_IND, udpBytes+4)
	f.add(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_K, 8)
	f.equal(vni)
	f.messageStart(udpBytes+vxlanBytes+ethernetBytes, unix.BPF_IND)
	return f.done()
}

// answers matches frames to any destination that may carry a message and that the device did not send.
func answers() []unix.SockFilter {
	var f filter
	f.messageStart(ethernetBytes, unix.BPF_ABS)
	f.load(unix.BPF_B|unix.BPF_ABS, packetType)
	f.none(unix.PACKET_OUTGOING)
	return f.done()
}

// openSocket opens a socket in the calling thread's namespace. The socket receives nothing before it has its filter.
func openSocket(kind int, protocol uint16, index int, program []unix.SockFilter) (_ *os.File, err error) {
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open a packet socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			err = fmt.Errorf("cannot open a packet socket: %w", err)
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, queueBytes); err != nil {
		return nil, err
	}
	attached := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &attached); err != nil {
		return nil, err
	}
	wire := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, protocol))
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: wire, Ifindex: index}); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}

// openOuter opens a socket for questions from any address. It receives before any firewall of the host.
func openOuter(six bool, udpPort uint16, vni uint32) (*os.File, error) {
	protocol := uint16(unix.ETH_P_IP)
	if six {
		protocol = unix.ETH_P_IPV6
	}
	return openSocket(unix.SOCK_DGRAM, protocol, 0, questions(six, udpPort, vni))
}

// openInner opens a socket that sends, and receives from the tunnel before a bridge does.
func openInner(index int) (*os.File, error) {
	return openSocket(unix.SOCK_RAW, unix.ETH_P_ALL, index, answers())
}

// unwrap returns the source and the payload of a packet that openOuter's socket received.
func unwrap(six bool, b []byte) (netip.AddrPort, []byte, bool) {
	header := sixBytes
	if !six {
		if len(b) < 20 {
			return netip.AddrPort{}, nil, false
		}
		header = int(b[0]&15) * 4
	}
	carried := header + udpBytes + vxlanBytes + ethernetBytes
	if len(b) < carried || header < 20 {
		return netip.AddrPort{}, nil, false
	}
	length := int(binary.BigEndian.Uint16(b[header+4:])) // of UDP, without padding
	if length < carried-header || header+length > len(b) {
		return netip.AddrPort{}, nil, false
	}
	address := netip.AddrFrom4([4]byte(b[12:]))
	if six {
		address = netip.AddrFrom16([16]byte(b[8:]))
	}
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(b[header:])), b[carried : header+length], true
}

// frame returns a message with the Ethernet header for the device.
func frame(to []byte, message []byte) []byte {
	b := make([]byte, 0, ethernetBytes+len(message))
	b = append(b, to...)
	b = append(b, agentMAC...)
	b = binary.BigEndian.AppendUint16(b, etherType)
	return append(b, message...)
}
