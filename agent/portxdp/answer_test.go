// SPDX-License-Identifier: Apache-2.0

package portxdp

import (
	"net/netip"
	"testing"
)

// RFC 4291, appendix A: the universal bit of the MAC address is inverted.
func TestLinkLocalDerivesFromTheMAC(t *testing.T) {
	address := netip.AddrFrom16(linkLocal([]byte{0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}))
	if expected := netip.MustParseAddr("fe80::3656:78ff:fe9a:bcde"); address != expected {
		t.Fatalf("%v, expected %v", address, expected)
	}
}
