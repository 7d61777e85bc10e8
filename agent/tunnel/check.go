// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"regexp"

	"bicast/agent/tunnel/wireguard"
	"bicast/api/agentv1"
	"bicast/internal/plural"
)

const (
	maxVNI     = 1<<24 - 1
	maxUDPPort = 1<<16 - 2
)

// deviceName matches the names of network devices that the controller accepts (controller/edges/config/document.py).
var deviceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}$`)

const expectedDevice = "expected the name of a network device: up to 15 letters, digits and _.:@-, a letter, digit or _ first"

// check validates an order.
func check(order *agentv1.Tunnels) error {
	tunnels := order.GetTunnels()
	if len(tunnels) > MaxNumber {
		return fmt.Errorf("%s, expected at most %d", plural.Of(len(tunnels), "tunnel"), MaxNumber)
	}
	names, ports, numbers, udpPorts := map[string]bool{}, map[string]bool{}, map[int]bool{}, map[uint32]bool{}
	for _, each := range tunnels {
		names[each.GetName()], ports[each.GetPort()] = true, true
		numbers[numberOf(each)], udpPorts[each.GetUdpPort()] = true, true
		if err := checkOne(each); err != nil {
			return fmt.Errorf("tunnel %q: %w", each.GetName(), err)
		}
	}
	if min(len(names), len(ports), len(numbers), len(udpPorts)) < len(tunnels) {
		return errors.New("two tunnels have the same name, port, number or UDP port, expected unique ones")
	}
	return nil
}

func checkOne(t *agentv1.Tunnel) error {
	remote := remoteOf(t)
	switch {
	case t.GetName() == "":
		return errors.New("the name is empty")
	case !deviceName.MatchString(t.GetPort()):
		return fmt.Errorf("port %q, %s", t.GetPort(), expectedDevice)
	case t.GetDevice() != "" && !deviceName.MatchString(t.GetDevice()):
		return fmt.Errorf("device %q, %s", t.GetDevice(), expectedDevice)
	case t.GetVni() == 0 || t.GetVni() > maxVNI:
		return fmt.Errorf("VNI %d, expected 1 to %d", t.GetVni(), maxVNI)
	case t.GetUdpPort() == 0 || t.GetUdpPort() > maxUDPPort:
		return fmt.Errorf("UDP port %d, expected 1 to %d", t.GetUdpPort(), maxUDPPort)
	case t.GetRemote() != "" && (!remote.IsValid() || remote.IsUnspecified() || remote.IsMulticast() || remote.Zone() != ""):
		return fmt.Errorf("remote %q, expected the address of one host", t.GetRemote())
	case len(t.GetKey()) != wireguard.KeyBytes:
		return fmt.Errorf("a preshared key of %d bytes, expected %d", len(t.GetKey()), wireguard.KeyBytes)
	case len(t.GetPeerKey()) != wireguard.KeyBytes && len(t.GetPeerKey()) != 0:
		return fmt.Errorf("a public key of %d bytes, expected %d, or none", len(t.GetPeerKey()), wireguard.KeyBytes)
	}
	return nil
}
