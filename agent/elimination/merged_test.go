// SPDX-License-Identifier: Apache-2.0

package elimination

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/lab"
)

// A tunnel over wifi, with and without GRO on its device. `bicast bridge` turns GRO off (gateway/ports.py).
func TestPacketsAreIdentifiedWithoutGROBelowTheTunnel(t *testing.T) {
	s := newSite(t)
	s.quiet()
	for host, other := range map[*lab.Host]string{s.far: "10.1.0.2", s.host: "10.1.0.1"} {
		host.Run("ip", "link", "add", "tun", "type", "vxlan", "id", "7", "dstport", "4789", "remote", other, "dev", "wifi")
		host.Run("ethtool", "-K", "tun", "tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off") // as the agent does
		host.Sysctl("ipv6/conf/tun/disable_ipv6", "1")
		host.Run("ip", "link", "set", "tun", "up")
	}
	s.far.Run("ethtool", "-K", "wifi", "tso", "off") // otherwise the veth passes merged packets
	s.far.Run("ip", "address", "add", "10.99.0.1/24", "dev", "tun")
	s.host.Run("ip", "address", "add", "10.99.0.2/24", "dev", "tun")
	order := ordered("tun", "lte")
	order.Paths[0].Mac = ""
	s.order(order)
	server := s.host.TCPEcho("10.99.0.2:0")
	for _, merging := range []string{"on", "off"} {
		s.host.Run("ethtool", "-K", "wifi", "gro", merging)
		before := s.executor.Report().GetPaths()[0]
		s.upload(server)
		after := s.executor.Report().GetPaths()[0]
		unidentified, first := after.GetUnidentified()-before.GetUnidentified(), after.GetFirst()-before.GetFirst()
		if merged := unidentified > 0; merged != (merging == "on") || merging == "off" && first < 1000 {
			t.Errorf("merging %s: %d packets unidentified, %d first", merging, unidentified, first)
		}
	}
}

// upload sends 2 MiB from the far host and waits for the echo.
func (s *site) upload(to netip.AddrPort) {
	s.t.Helper()
	s.far.Do(func() error {
		conn, err := net.DialTimeout("tcp", to.String(), deaf)
		if err != nil {
			return err
		}
		defer conn.Close()
		return errors.Join(conn.SetDeadline(time.Now().Add(deaf)), lab.Exchange(conn, 2<<20))
	})
}
