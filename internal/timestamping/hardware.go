// SPDX-License-Identifier: Apache-2.0

package timestamping

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const everything = 1 // HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL: linux/net_tstamp.h

// stampsItself tells whether the network card stamps all that comes and goes by the device with this address. It is not
// switched on here: that is the card's, for everybody, and would stay so (hwstamp_ctl -i DEVICE -t 1 -r 1).
func stampsItself(socket int, local netip.Addr, device string) bool {
	if device == "" {
		if device = holder(local); device == "" {
			return false
		}
	}
	can, err := unix.IoctlGetEthtoolTsInfo(socket, device)
	if err != nil || can.So_timestamping&hardwareStampings != hardwareStampings {
		return false
	}
	does, err := unix.IoctlGetHwTstamp(socket, device)
	return err == nil && does.Tx_type == everything && does.Rx_filter == everything
}

// holder is the device that has an address.
func holder(of netip.Addr) string {
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
