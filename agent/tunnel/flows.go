// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kernel's connection tracking, linux/netfilter/nfnetlink_conntrack.h
const (
	deleteFlows  = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2 // IPCTNL_MSG_CT_DELETE
	flowMark     = 8                                 // CTA_MARK
	flowMarkMask = 21                                // CTA_MARK_MASK
	tunnelledUDP = 0x626a                            // gateway/lan.py marks the UDP flows that a LAN sends to the bridge
)

// forgetFlows has the kernel forget the UDP flows of LANs that left by the bridge. Their next packets begin new flows,
// which leave by the host's own route and NAT. TCP connections stay: their peers would not know the new address.
func forgetFlows() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("cannot open netfilter's netlink: %w", err)
	}
	defer conn.Close()
	attributes := netlink.NewAttributeEncoder()
	attributes.ByteOrder = binary.BigEndian
	attributes.Uint32(flowMark, tunnelledUDP)
	attributes.Uint32(flowMarkMask, ^uint32(0))
	filter, err := attributes.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: deleteFlows, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}, filter...),
	})
	if err != nil {
		return fmt.Errorf("cannot move UDP flows to the host's own route: %w", err)
	}
	return nil
}
