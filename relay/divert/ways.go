// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ways are what leads packets here and to the bridge, as far as somebody else may take it away: who has networks in hand, such
// as systemd-networkd, drops rules and routes that are not its own when it begins anew.
type ways struct {
	led           [2]bool // by the mark, of IPv4 and of IPv6
	rules, routes int     // of the ground
}

// waysThere is asked often, and so not of `ip`.
func waysThere() (w ways, err error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err == nil {
		defer conn.Close()
		err = conn.SetOption(netlink.GetStrictCheck, true) // or routes of others come, too
	}
	if err != nil {
		return w, fmt.Errorf("whether connections are led to the proxy cannot be seen: %w", err)
	}
	for i, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		w.led[i] = leads(conn, family)
		rules, err := conn.Execute(asks(unix.RTM_GETRULE, netlink.Dump, family, 0))
		if err != nil {
			return w, fmt.Errorf("rules of routing cannot be read: %w", err)
		}
		for _, each := range rules {
			if ours(each.Data) {
				w.rules++
			}
		}
		routes, err := conn.Execute(asks(unix.RTM_GETROUTE, netlink.Dump, family, origin))
		if err != nil {
			return w, fmt.Errorf("routes cannot be read: %w", err)
		}
		w.routes += len(routes)
	}
	return w, nil
}

// asks has struct rtmsg, or struct fib_rule_hdr, which are alike that far.
func asks(what netlink.HeaderType, flags netlink.HeaderFlags, family, protocol byte) netlink.Message {
	data := make([]byte, unix.SizeofRtMsg)
	data[0], data[5] = family, protocol
	return netlink.Message{Header: netlink.Header{Type: what, Flags: netlink.Request | flags}, Data: data}
}

// leads tells where a packet with the mark goes, wherever it is for.
func leads(conn *netlink.Conn, family byte) bool {
	address := make([]byte, map[byte]int{unix.AF_INET: 4, unix.AF_INET6: 16}[family])
	address[0] = 0x2d // in the Internet, in both
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.RTA_DST, address)
	attributes.Uint32(unix.RTA_MARK, intercepted)
	encoded, err := attributes.Encode()
	if err != nil {
		return false
	}
	ask := asks(unix.RTM_GETROUTE, 0, family, 0)
	ask.Data[1] = byte(8 * len(address))
	ask.Data = append(ask.Data, encoded...)
	said, err := conn.Execute(ask)
	return err == nil && len(said) == 1 && len(said[0].Data) >= unix.SizeofRtMsg && said[0].Data[7] == unix.RTN_LOCAL
}

func ours(rule []byte) bool {
	attributes, err := netlink.NewAttributeDecoder(rule[min(len(rule), unix.SizeofRtMsg):])
	for err == nil && attributes.Next() {
		if attributes.Type() == unix.FRA_PROTOCOL {
			return attributes.Uint8() == origin
		}
	}
	return false
}
