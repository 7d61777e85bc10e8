// SPDX-License-Identifier: Apache-2.0

package divert

import (
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/route"
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
	for i, public := range []string{"45.0.0.0", "2d00::"} {
		address := netip.MustParseAddr(public)
		family := route.Family(address)
		w.routed[i] = isRouted(conn, address)
		rules, err := conn.Execute(dumpOf(unix.RTM_GETRULE, family, 0))
		if err != nil {
			return w, fmt.Errorf("cannot read the routing rules: %w", err)
		}
		for _, each := range rules {
			if ours(each.Data) {
				w.rules++
			}
		}
		routes, err := conn.Execute(dumpOf(unix.RTM_GETROUTE, family, routeProtocol))
		if err != nil {
			return w, fmt.Errorf("cannot read the routes: %w", err)
		}
		w.routes += len(routes)
	}
	return w, nil
}

// dumpOf requests what a program made, or all for protocol 0. The first fields of struct rtmsg and struct fib_rule_hdr
// are the same.
func dumpOf(what netlink.HeaderType, family, protocol byte) netlink.Message {
	data := make([]byte, unix.SizeofRtMsg)
	data[0], data[5] = family, protocol
	return netlink.Message{Header: netlink.Header{Type: what, Flags: netlink.Request | netlink.Dump}, Data: data}
}

// isRouted tells whether packets with the mark are routed to this host.
func isRouted(conn *netlink.Conn, public netip.Addr) bool {
	found, err := route.Of(conn, route.Packet{To: public, Mark: intercepted})
	return err == nil && found.Kind == unix.RTN_LOCAL
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
