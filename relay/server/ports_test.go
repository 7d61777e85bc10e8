// SPDX-License-Identifier: Apache-2.0

package server

import "testing"

func TestPortsMatchTheList(t *testing.T) {
	ports, err := ParsePorts("80, 443,8000-8099")
	if err != nil || ports.String() != "80,443,8000-8099" {
		t.Fatalf("%v, %v", ports, err)
	}
	for port, have := range map[uint16]bool{80: true, 443: true, 8000: true, 8099: true, 22: false, 81: false, 7999: false, 8100: false, 0: false} {
		if ports.Have(port) != have {
			t.Errorf("port %d is listed: %v", port, !have)
		}
	}
	for _, wrong := range []string{"", "0", "80,", "443-80", "http", "65536", "-1", "1-2-3"} {
		if ports, err := ParsePorts(wrong); err == nil {
			t.Errorf("%q is read as %v", wrong, ports)
		}
	}
}
