// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// routing is a snapshot of the routing that this package needs and other programs may remove: network managers, such as
// systemd-networkd, drop foreign rules and routes when they restart.
type routing struct {
	routed        [2]bool // to the proxy, by the mark; IPv4, IPv6
	rules, routes int     // of the bridge link
}

// readRouting takes the snapshot over netlink, since it is called often.
func readRouting() (w routing, err error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err == nil {
		defer conn.Close()
		err = conn.SetOption(netlink.GetStrictCheck, true) // without it the kernel ignores the protocol filter
	}
	if err != nil {
		return w, fmt.Errorf("cannot check the routes to the proxy: %w", err)
	}
	for i, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		w.routed[i] = isRouted(conn, family)
		rules, err := conn.Execute(routeRequest(unix.RTM_GETRULE, netlink.Dump, family, 0))
		if err != nil {
			return w, fmt.Errorf("cannot read the routing rules: %w", err)
		}
		for _, each := range rules {
			if ours(each.Data) {
				w.rules++
			}
		}
		routes, err := conn.Execute(routeRequest(unix.RTM_GETROUTE, netlink.Dump, family, routeProtocol))
		if err != nil {
			return w, fmt.Errorf("cannot read the routes: %w", err)
		}
		w.routes += len(routes)
	}
	return w, nil
}

// routeRequest builds a request. The first fields of struct rtmsg and struct fib_rule_hdr are the same.
func routeRequest(what netlink.HeaderType, flags netlink.HeaderFlags, family, protocol byte) netlink.Message {
	data := make([]byte, unix.SizeofRtMsg)
	data[0], data[5] = family, protocol
	return netlink.Message{Header: netlink.Header{Type: what, Flags: netlink.Request | flags}, Data: data}
}

// isRouted tells whether packets with the mark are routed to this host.
func isRouted(conn *netlink.Conn, family byte) bool {
	address := make([]byte, map[byte]int{unix.AF_INET: 4, unix.AF_INET6: 16}[family])
	address[0] = 0x2d // a public address in both families
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.RTA_DST, address)
	attributes.Uint32(unix.RTA_MARK, intercepted)
	encoded, err := attributes.Encode()
	if err != nil {
		return false
	}
	ask := routeRequest(unix.RTM_GETROUTE, 0, family, 0)
	ask.Data[1] = byte(8 * len(address))
	ask.Data = append(ask.Data, encoded...)
	said, err := conn.Execute(ask)
	return err == nil && len(said) == 1 && len(said[0].Data) >= unix.SizeofRtMsg && said[0].Data[7] == unix.RTN_LOCAL
}

func ours(rule []byte) bool {
	attributes, err := netlink.NewAttributeDecoder(rule[min(len(rule), unix.SizeofRtMsg):])
	for err == nil && attributes.Next() {
		if attributes.Type() == unix.FRA_PROTOCOL {
			return attributes.Uint8() == routeProtocol
		}
	}
	return false
}
