// SPDX-License-Identifier: Apache-2.0

package timestamping

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const hwtstampAll = 1 // HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL: linux/net_tstamp.h

// stampsInHardware reports whether the network card of this address stamps all packets in hardware. The socket does not
// enable that: it is a setting of the card, affects everybody and persists (hwstamp_ctl -i DEVICE -t 1 -r 1).
func stampsInHardware(socket int, local netip.Addr, device string) bool {
	if device == "" {
		if device = deviceWith(local); device == "" {
			return false
		}
	}
	can, err := unix.IoctlGetEthtoolTsInfo(socket, device)
	if err != nil || can.So_timestamping&hardwareFlags != hardwareFlags {
		return false
	}
	does, err := unix.IoctlGetHwTstamp(socket, device)
	return err == nil && does.Tx_type == hwtstampAll && does.Rx_filter == hwtstampAll
}

// deviceWith returns the device that has an address.
func deviceWith(of netip.Addr) string {
	devices, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, device := range devices {
		addresses, err := device.Addrs()
		if err != nil {
			continue
		}
		for _, each := range addresses {
			prefix, err := netip.ParsePrefix(each.String())
			if err == nil && prefix.Addr().Unmap() == of.Unmap().WithZone("") {
				return device.Name
			}
		}
	}
	return ""
}
