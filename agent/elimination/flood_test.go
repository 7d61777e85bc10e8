// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"net"
	"strings"
	"testing"

	"bicast/internal/lab"
)

// The switch floods: each packet to one uplink's port also arrives at the other's, which ignores it.
//
//	far ── switch ─┬─ wifi ─ host
//	               └─ lte ── host
func TestNothingIsLostBehindAFloodingSwitch(t *testing.T) {
	s := newSite(t)
	s.quiet()
	s.far.Run("ip", "link", "add", "switch", "type", "bridge", "stp_state", "0")
	s.far.Sysctl("ipv6/conf/switch/disable_ipv6", "1")
	s.far.Run("ip", "link", "set", "switch", "up")
	for _, port := range roads {
		s.far.Run("ip", "address", "flush", "dev", port)
		s.far.Run("ip", "link", "set", port, "master", "switch")
		s.far.Run("bridge", "link", "set", "dev", port, "learning", "off", "flood", "on")
	}
	order := ordered(roads[:]...)
	for _, path := range order.GetPaths() {
		path.Mac = ""
	}
	s.order(order)
	for path, port := range roads {
		own, other := []string{"10.1.0.2", "10.2.0.2"}[path], []string{"10.1.0.1", "10.2.0.1"}[path]
		s.far.Run("ip", "address", "add", other+"/24", "dev", "switch")
		s.far.Run("ip", "neighbour", "replace", own, "lladdr", addressOf(t, s.host, port), "dev", "switch")
		s.host.Run("ip", "neighbour", "replace", other, "lladdr", addressOf(t, s.far, "switch"), "dev", port)
		if said := s.far.Run("sh", "-c", "ping -c 10 -i 0.01 -W 1 "+own+" || true"); !strings.Contains(said, " 0% packet loss") {
			t.Errorf("to %s: %s, expected that nothing is lost", port, said)
		}
	}
}

func addressOf(t *testing.T, host *lab.Host, device string) (address string) {
	t.Helper()
	host.Do(func() error {
		found, err := net.InterfaceByName(device)
		if err == nil {
			address = found.HardwareAddr.String()
		}
		return err
	})
	return address
}
