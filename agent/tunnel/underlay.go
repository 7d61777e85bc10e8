// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	usualMTU    = 1500
	overFour    = 20 + udpBytes + vxlanBytes + ethernetBytes
	overSixMore = sixBytes - 20
)

// way is how the packets of a tunnel leave this host. Another one is another path.
type way struct {
	device  int // 0: there is none just now
	source  netip.Addr
	gateway netip.Addr
	mtu     int
}

// inside is how long a packet the tunnel's device takes.
func (w way) inside(six bool) int {
	mtu := w.mtu - overFour
	if six {
		mtu -= overSixMore
	}
	return min(mtu, longest)
}

// leaves tells how a tunnel by a device, or as routes say where its name is empty, leads to a peer, who may not be known.
func (k *kernel) leaves(by string, peer netip.Addr) (underlay int, w way, err error) {
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
		return 0, way{}, fmt.Errorf("the network device %s, by which it is to leave, is not there", by)
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

// route asks the kernel; where it has none that is no error, but no way.
func (k *kernel) route(by int, peer netip.Addr) (way, error) {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[1] = unix.AF_INET, byte(peer.BitLen())
	if peer.Is6() {
		header[0] = unix.AF_INET6
	}
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.RTA_DST, peer.AsSlice())
	if by != 0 {
		attributes.Uint32(unix.RTA_OIF, uint32(by))
	}
	encoded, err := attributes.Encode()
	if err != nil {
		return way{}, err
	}
	messages, err := k.outer.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: append(header, encoded...),
	})
	var refused *netlink.OpError
	if errors.As(err, &refused) {
		return way{}, nil
	}
	if err != nil || len(messages) == 0 {
		return way{}, errors.Join(fmt.Errorf("the route to %v cannot be read", peer), err)
	}
	return decodeRoute(messages[0].Data)
}

// decodeRoute reads struct rtmsg and attributes.
func decodeRoute(b []byte) (way, error) {
	if len(b) < unix.SizeofRtMsg {
		return way{}, fmt.Errorf("a route of %d bytes, expected at least %d", len(b), unix.SizeofRtMsg)
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return way{}, fmt.Errorf("a route's attributes: %w", err)
	}
	var w way
	for attributes.Next() {
		switch attributes.Type() {
		case unix.RTA_OIF:
			if value := attributes.Bytes(); len(value) == 4 {
				w.device = int(binary.NativeEndian.Uint32(value))
			}
		case unix.RTA_PREFSRC:
			w.source, _ = netip.AddrFromSlice(attributes.Bytes())
		case unix.RTA_GATEWAY:
			w.gateway, _ = netip.AddrFromSlice(attributes.Bytes())
		}
	}
	return w, attributes.Err()
}

// watch tells of each change of devices, addresses and routes outside, until the socket is closed.
func watch(outside func(func() error) error, changed func()) (end func() error, err error) {
	var conn *netlink.Conn
	err = outside(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: 1<<(unix.RTNLGRP_LINK-1) |
			1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
			1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("changes of addresses cannot be heard: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, err := conn.Receive()
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // so many changes that some were lost: still a change
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
