// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A tunnel with a device of its own marks its encrypted packets. A rule sends them to a table whose only route is the way
// over this device. Without a way, the packets do not leave by another device.
const (
	markBase     = 0xb1 << 24
	markShift    = 20 // the lower bits are free for others
	rulePriority = 98
)

var families = []byte{unix.AF_INET, unix.AF_INET6}

// markOf returns the mark of a tunnel's packets, which is also the number of its table.
func markOf(number int) uint32 { return markBase | uint32(number)<<markShift }

// steer makes a tunnel's packets to its peer leave by a way.
func (k *kernel) steer(number int, peer netip.Addr, w way) error {
	mark := markOf(number)
	for _, family := range families {
		if err := k.rule(unix.RTM_NEWRULE, netlink.Create|netlink.Excl, family, mark); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot steer a tunnel's packets to its device: %w", err)
		}
		var err error
		if w.device != 0 && peer.IsValid() && familyOf(peer) == family {
			err = k.steered(unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, family, mark, w)
		} else if err = k.steered(unix.RTM_DELROUTE, 0, family, mark, way{}); errors.Is(err, unix.ESRCH) {
			err = nil
		}
		if err == nil && peer.IsValid() {
			err = k.unreachable(unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, family, mark)
		}
		if err != nil {
			return fmt.Errorf("cannot steer a tunnel's packets to its device: %w", err)
		}
	}
	return nil
}

// unsteer removes the rules and routes of a tunnel.
func (k *kernel) unsteer(number int) error {
	var failures []error
	mark := markOf(number)
	for _, family := range families {
		for _, err := range []error{
			k.rule(unix.RTM_DELRULE, 0, family, mark),
			k.steered(unix.RTM_DELROUTE, 0, family, mark, way{}),
			k.unreachable(unix.RTM_DELROUTE, 0, family, mark),
		} {
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EAFNOSUPPORT) {
				failures = append(failures, fmt.Errorf("cannot remove a tunnel's routes: %w", err))
			}
		}
	}
	return errors.Join(failures...)
}

// rule adds or deletes the rule of a mark. Its header is struct fib_rule_hdr.
func (k *kernel) rule(kind uint16, flags netlink.HeaderFlags, family byte, mark uint32) error {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[7] = family, unix.FR_ACT_TO_TBL
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.FRA_FWMARK, mark)
	attributes.Uint32(unix.FRA_FWMASK, math.MaxUint32)
	attributes.Uint32(unix.FRA_TABLE, mark)
	attributes.Uint32(unix.FRA_PRIORITY, rulePriority)
	attributes.Uint8(unix.FRA_PROTOCOL, routeProtocol)
	return change(k.outer, kind, flags, header, attributes)
}

// steered adds or deletes the route over the tunnel's device. A way without a device matches any.
func (k *kernel) steered(kind uint16, flags netlink.HeaderFlags, family byte, mark uint32, w way) error {
	scope := byte(unix.RT_SCOPE_UNIVERSE)
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.RTA_TABLE, mark)
	attributes.Uint32(unix.RTA_PRIORITY, routeMetric)
	switch {
	case w.device == 0:
		scope = unix.RT_SCOPE_NOWHERE
	case !w.gateway.IsValid():
		scope = unix.RT_SCOPE_LINK
	}
	if w.gateway.IsValid() {
		attributes.Bytes(unix.RTA_GATEWAY, w.gateway.AsSlice())
	}
	if w.device != 0 {
		attributes.Uint32(unix.RTA_OIF, uint32(w.device))
	}
	return change(k.outer, kind, flags, tableHeader(family, scope, unix.RTN_UNICAST), attributes)
}

// unreachable adds or deletes the end of the table.
func (k *kernel) unreachable(kind uint16, flags netlink.HeaderFlags, family byte, mark uint32) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Uint32(unix.RTA_TABLE, mark)
	attributes.Uint32(unix.RTA_PRIORITY, math.MaxInt32)
	header := tableHeader(family, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNREACHABLE)
	return change(k.outer, kind, flags, header, attributes)
}

// tableHeader encodes struct rtmsg of a default route whose table is an attribute.
func tableHeader(family, scope, kind byte) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[4], b[5], b[6], b[7] = family, unix.RT_TABLE_UNSPEC, routeProtocol, scope, kind
	return b
}

func putIndex(b []byte, index int) { binary.NativeEndian.PutUint32(b, uint32(index)) }
