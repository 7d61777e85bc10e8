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

	"bicast/internal/route"
)

// A tunnel with a device of its own marks its encrypted packets. A rule sends them to a table whose only route is the way
// over this device. Without a way, the packets do not leave by another device.
const (
	markBase     = 0xb1 << 24
	markShift    = 20 // the lower bits are free for others
	rulePriority = 98
)

// markOf returns the mark of a tunnel's packets, which is also the number of its table.
func markOf(number int) uint32 { return markBase | uint32(number)<<markShift }

// overWay returns the route of a tunnel's table over a way, or over any.
func overWay(family byte, mark uint32, w way) route.Route {
	return route.Route{
		Table: mark, Protocol: routeProtocol, Kind: unix.RTN_UNICAST, Destination: route.Default(family), Metric: routeMetric,
		Device: w.device, Gateway: w.gateway,
	}
}

// noWay returns the end of a tunnel's table.
func noWay(family byte, mark uint32) route.Route {
	return route.Route{
		Table: mark, Protocol: routeProtocol, Kind: unix.RTN_UNREACHABLE, Destination: route.Default(family), Metric: math.MaxInt32,
	}
}

// steer makes a tunnel's packets to its peer leave by a way.
func (k *kernel) steer(number int, peer netip.Addr, w way) error {
	mark := markOf(number)
	for _, family := range route.Families {
		err := k.rule(unix.RTM_NEWRULE, netlink.Create|netlink.Excl, family, mark)
		if errors.Is(err, unix.EEXIST) {
			err = nil
		}
		switch {
		case err != nil:
		case w.device != 0 && peer.IsValid() && route.Family(peer) == family:
			err = route.Set(k.outer, overWay(family, mark, w))
		default:
			err = route.Delete(k.outer, overWay(family, mark, way{}))
		}
		if err == nil && peer.IsValid() {
			err = route.Set(k.outer, noWay(family, mark))
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
	for _, family := range route.Families {
		for _, err := range []error{
			k.rule(unix.RTM_DELRULE, 0, family, mark),
			route.Delete(k.outer, overWay(family, mark, way{})),
			route.Delete(k.outer, noWay(family, mark)),
		} {
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) {
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

func putIndex(b []byte, index int) { binary.NativeEndian.PutUint32(b, uint32(index)) }
