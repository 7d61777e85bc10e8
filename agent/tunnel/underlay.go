// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/route"
)

// Lengths of headers, in bytes.
const (
	ethernetBytes = 14
	udpBytes      = 8
	vxlanBytes    = 8
	fourBytes     = 20 // of IPv4
	sixBytes      = 40 // of IPv6
	dataBytes     = 32 // of WireGuard: its header and its authenticator

	usualMTU    = 1500
	smallestSix = 1280 // the kernel has no IPv6 on devices with less (RFC 8200 5)
	padding     = 16   // WireGuard pads to multiples, but not above its device's MTU
	overInner   = sixBytes + udpBytes + vxlanBytes + ethernetBytes
)

// way is the route of a tunnel's packets out of this host. Another way means another path.
type way struct {
	device  int // index; 0: no route
	source  netip.Addr
	gateway netip.Addr
	mtu     int
}

// mtus returns the MTU of the WireGuard device and that of the VXLAN device in it. An unknown peer counts as one of IPv6.
func (w way) mtus(peer netip.Addr) (outer, inner int) {
	outer = w.mtu - udpBytes - dataBytes - sixBytes
	if peer.Is4() {
		outer += sixBytes - fourBytes
	}
	outer = min(outer, longest)
	if outer < smallestSix {
		return smallestSix, max(outer&^(padding-1)-overInner, smallestMTU)
	}
	return outer, outer - overInner
}

// wayTo returns the way to a peer over a device. Without a device, the routes decide. The peer may be unknown.
func (k *kernel) wayTo(by string, peer netip.Addr) (underlay int, w way, err error) {
	all, err := devices(k.outer)
	if err != nil {
		return 0, way{}, err
	}
	mtus := map[int]int{}
	for _, each := range all {
		mtus[each.index] = each.mtu
		if by != "" && each.name == by {
			underlay = each.index
		}
	}
	if by != "" && underlay == 0 {
		return 0, way{}, fmt.Errorf("the network device %s for outgoing packets does not exist", by)
	}
	if peer.IsValid() {
		if w, err = k.route(underlay, peer); err != nil {
			return underlay, way{}, err
		}
	}
	w.mtu = usualMTU
	if mtu, known := mtus[max(w.device, underlay)]; known {
		w.mtu = mtu
	}
	return underlay, w, nil
}

// route asks the kernel for the route to a peer. A missing route is not an error.
func (k *kernel) route(by int, peer netip.Addr) (way, error) {
	found, err := route.Of(k.outer, route.Packet{To: peer, Device: by})
	if refused := (*netlink.OpError)(nil); errors.As(err, &refused) {
		return way{}, nil
	}
	return way{device: found.Device, source: found.Source, gateway: found.Gateway}, err
}

// watch calls a function at each change of devices, addresses and routes outside, until the end is called.
func watch(outside func(func() error) error, changed func()) (end func() error, err error) {
	var conn *netlink.Conn
	err = outside(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: 1<<(unix.RTNLGRP_LINK-1) |
			1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
			1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch changes of addresses: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, err := conn.Receive()
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // lost messages mean a change too
				return
			}
			changed()
		}
	}()
	return func() error {
		err := conn.Close()
		<-ended
		return err
	}, nil
}
