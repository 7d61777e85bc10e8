// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

func TestThisHostCanHaveTunnels(t *testing.T) {
	if err := Probe(); err != nil {
		t.Fatal(err)
	}
}

func TestTwoSitesConnectThroughANATOverIPv4AndIPv6(t *testing.T) {
	for name, six := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, six).begin()
			largest := 1370
			if six {
				largest = 1350
			}
			w.await("the length is known", func() bool {
				return w.near.says().GetMtuBytes() == uint32(largest) && w.away.says().GetMtuBytes() == uint32(largest)
			})
			w.await("the longest goes", func() bool { return w.ping(largest) })
			w.await("senders are told", func() bool { return w.near.fit.told() == largest })
			if w.near.says().GetRttUs() == 0 || w.away.says().GetMoves() != 0 {
				t.Fatalf("%v, %v", w.near.says(), w.away.says())
			}
		})
	}
}

func TestThePeerIsFollowedToANewNATAddress(t *testing.T) {
	w := newWorld(t, false).begin()
	w.renumbered()
	if w.away.says().GetMoves() != 1 {
		t.Fatalf("%v, expected one move", w.away.says())
	}
}

func TestThePeerIsFollowedWhenItsNATForgets(t *testing.T) {
	newWorld(t, false).begin().forgotten()
}

func TestAChangedLocalAddressIsSentAtOnce(t *testing.T) {
	newWorld(t, false).begin().moved()
}

func TestTimedTunnelFollowsWithin3s(t *testing.T) {
	for name, change := range map[string]func(*world) time.Duration{
		"NAT with another address": (*world).renumbered, "NAT that forgets": (*world).forgotten, "own address": (*world).moved,
	} {
		t.Run(name, func(t *testing.T) {
			took := change(newWorld(t, false).begin())
			t.Logf("packets went through after %v", took)
			if took > 3*time.Second {
				t.Fatalf("packets went through after %v, expected at most 3 s", took)
			}
		})
	}
}

// renumbered gives the NAT another address, and returns the time until packets passed again.
func (w *world) renumbered() time.Duration {
	w.traffic()
	w.nat.Run("ip", "address", "add", "203.0.113.2/24", "dev", "out")
	w.nat.Run("ip", "address", "delete", "203.0.113.1/24", "dev", "out")
	w.nat.Run("ip", "address", "replace", "203.0.113.2/24", "dev", "out")
	took := w.await("the far end follows", func() bool {
		return strings.HasPrefix(w.away.says().GetPeer(), "203.0.113.2:")
	})
	return took + w.await("packets go through again", func() bool { return w.ping(100) })
}

// forgotten empties the NAT's table, and returns the time until packets passed again.
func (w *world) forgotten() time.Duration {
	w.traffic()
	before := w.away.says().GetPeer()
	w.forget()
	took := w.await("the far end follows", func() bool { return w.away.says().GetPeer() != before })
	return took + w.await("packets go through again", func() bool { return w.ping(100) })
}

// moved gives the near end another address, and returns the time until packets passed again.
func (w *world) moved() time.Duration {
	w.gateway.Run("ip", "address", "add", "10.0.0.3/24", "dev", "wan")
	w.gateway.Run("ip", "address", "delete", "10.0.0.2/24", "dev", "wan")
	w.gateway.Run("ip", "address", "replace", "10.0.0.3/24", "dev", "wan")
	w.gateway.Run("ip", "route", "replace", "default", "via", "10.0.0.1")
	took := w.await("the far end follows", func() bool { return w.away.says().GetMoves() == 1 })
	return took + w.await("packets go through again", func() bool { return w.ping(100) })
}

func TestMTUIsMeasuredWithoutICMP(t *testing.T) {
	for name, six := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, six).begin()
			full, narrow := uint32(1370), uint32(1258) // WireGuard pads to multiples of 16
			if six {
				full, narrow = 1350, 1242
			}
			measured := func(bytes uint32) func() bool {
				return func() bool {
					return w.near.says().GetMtuBytes() == bytes && w.away.says().GetMtuBytes() == bytes
				}
			}
			w.await("the length is known", measured(full))
			w.narrow(1400)
			took := w.await("a shorter one is", measured(narrow))
			w.await("senders are told", func() bool { return w.near.fit.told() == int(narrow) })
			if !w.passes(int(narrow)) || w.ping(int(narrow)+1) {
				t.Fatalf("what is measured, %d bytes, is not what goes through", narrow)
			}
			w.widen()
			again := w.await("the longer one is", measured(full))
			t.Logf("%d bytes after %v, and %d again after %v", narrow, took, full, again)
		})
	}
}

func TestACleanEndRemovesEverything(t *testing.T) {
	w := newWorld(t, false).begin()
	w.near.end()
	if _, err := w.away.executor.Order(&agentv1.Tunnels{}); err != nil {
		t.Fatal(err)
	}
	if w.away.executor.Report() != nil {
		t.Fatal("a report of nothing")
	}
	for _, host := range []interface{ Run(...string) string }{w.gateway, w.ports, w.far} {
		if left := host.Run("ip", "-d", "link"); strings.Contains(left, "vxlan") || strings.Contains(left, outerPrefix) {
			t.Fatalf("%s is left", left)
		}
		if left := host.Run("ip", "route", "show", "table", "all", "proto", "98"); left != "" {
			t.Fatalf("%s is left", left)
		}
		if left := host.Run("ip", "rule"); strings.Contains(left, "fwmark") {
			t.Fatalf("%s is left", left)
		}
	}
	if w.near.fit.told() != 0 {
		t.Fatal("senders still learn the MTU")
	}
}

func TestUnchangedTunnelsStayAndOthersAreRemoved(t *testing.T) {
	w := newWorld(t, false).begin()
	mac := w.farMAC()
	more := proto.Clone(w.away.order).(*agentv1.Tunnels)
	more.Tunnels = append(more.Tunnels, second(more.Tunnels[0], nearKeys))
	for _, each := range []*agentv1.Tunnels{more, more, w.away.order} {
		if _, err := w.away.executor.Order(each); err != nil {
			t.Fatal(err)
		}
		if left := strings.Contains(w.far.Run("ip", "link"), "tun2"); left != (each == more) {
			t.Fatalf("tun2 is there: %v", left)
		}
	}
	if now := w.farMAC(); now != mac {
		t.Fatalf("%s, expected the same device, %s", now, mac)
	}
	if !w.passes(100) {
		t.Fatal("nothing goes through")
	}
}

func TestANewKeyReplacesTheOldOneWithoutARestart(t *testing.T) {
	w := newWorld(t, false).begin()
	w.await("packets go through", func() bool { return w.ping(100) })
	another := func(order *agentv1.Tunnels) *agentv1.Tunnels {
		order = proto.Clone(order).(*agentv1.Tunnels)
		order.Tunnels[0].Key = bytes.Repeat([]byte{8}, len(testKey))
		return order
	}
	if _, err := w.away.executor.Order(another(w.away.order)); err != nil {
		t.Fatal(err)
	}
	w.await("the end with the old key is silent", func() bool { return w.near.says().GetReason() != "" })
	if w.ping(100) {
		t.Fatal("packets go through for an end whose key was revoked")
	}
	if _, err := w.near.executor.Order(another(w.near.order)); err != nil {
		t.Fatal(err)
	}
	w.await("the ends hear each other again", w.alive)
	w.await("packets go through again", func() bool { return w.ping(100) })
}

func TestAForeignDeviceIsReportedAndKept(t *testing.T) {
	w := newWorld(t, false)
	w.far.Run("ip", "link", "add", "tun", "type", "vxlan", "id", "7", "dstport", "4791")
	w.far.Run("ip", "link", "set", "tun", "up")
	_, order := w.orders()
	executor := NewExecutor(w.far.Try, w.far.Try, farKeys, &fits{}, discard())
	_, err := executor.Order(order)
	if err == nil || !strings.Contains(err.Error(), "ip link delete tun") {
		t.Fatalf("%v, expected it to say what to do", err)
	}
	if says := executor.Report().GetEnds()[0].GetReason(); !strings.Contains(says, "another network device has the name") {
		t.Fatalf("%q", says)
	}
	if _, err := executor.Order(&agentv1.Tunnels{}); err != nil {
		t.Fatal(err)
	}
	w.far.Run("ip", "link", "show", "tun")
}

func TestTwoTunnelsShareAnAddress(t *testing.T) {
	w := newWorld(t, false)
	near, away := w.orders()
	near.Tunnels = append(near.Tunnels, second(near.Tunnels[0], farKeys))
	away.Tunnels = append(away.Tunnels, second(away.Tunnels[0], nearKeys))
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.far, away)
	w.address()
	both := func() bool {
		for _, each := range append(w.near.executor.Report().GetEnds(), w.away.executor.Report().GetEnds()...) {
			if each.GetReason() != "" || each.GetMtuBytes() == 0 {
				return false
			}
		}
		return true
	}
	w.await("both are alive", both)
	w.forget()
	w.await("both are followed", func() bool {
		ends := w.away.executor.Report().GetEnds()
		return both() && ends[0].GetMoves() > 0 && ends[1].GetMoves() > 0
	})
	if !w.passes(100) {
		t.Fatal("nothing goes through")
	}
}

func TestRemovedDevicesAreRestored(t *testing.T) {
	w := newWorld(t, false).begin()
	for _, name := range []string{"tun", outerName(testVNI)} {
		before := w.farMAC()
		w.far.Run("ip", "link", "delete", name)
		w.await("it is there again", func() bool { now := w.farMAC(); return now != "" && now != before })
		w.address()
		w.await("packets go through again", func() bool { return w.ping(100) })
	}
}

func TestAMissingUnderlayIsReportedAndUsedWhenItAppears(t *testing.T) {
	w := newWorld(t, false).begin()
	w.gateway.Run("ip", "link", "set", "wan", "name", "usb0") // kernels before 6.3 rename only devices that are down
	w.await("it is said", func() bool { return strings.Contains(w.near.says().GetReason(), "wan") })
	w.gateway.Run("ip", "link", "set", "usb0", "name", "wan")
	w.await("it is there again", w.alive)
}

func TestATunnelLeavesByItsDeviceAgainstTheRoutes(t *testing.T) {
	w := newWorld(t, false)
	w.addUplink()
	near, away := w.orders()
	near.Tunnels[0].Device, away.Tunnels[0].Device = "wan2", "net"
	w.nft(w.nat, `table inet only {
chain forward {
type filter hook forward priority filter;
iifname "lan" drop
}
}`)
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, lab.One(t), away)
	w.await("the ends hear each other", w.alive)
}

func TestTwoAgentsMayShareANamespaceOfPorts(t *testing.T) {
	w := newWorld(t, false)
	near, away := w.orders()
	away.Tunnels[0].Port = "nut"
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.ports, away)
	w.await("the ends hear each other", w.alive)
	w.near.end()
	if left := w.ports.Run("ip", "-d", "link"); !strings.Contains(left, "nut") || strings.Contains(left, "tun@") {
		t.Fatalf("%s, expected the other agent's device alone", left)
	}
}

func TestLANIsLedToTheBridgeWhileATunnelIsUp(t *testing.T) {
	w := newWorld(t, false)
	w.ports.Run("ip", "link", "add", "ve0", "type", "veth", "peer", "name", "ve0-h")
	w.ports.Run("ip", "link", "set", "ve0-h", "up")
	led := func() bool {
		return strings.Contains(w.ports.Run("ip", "-brief", "link", "show", "dev", "ve0-h"), "LOWER_UP")
	}
	near, away := w.orders()
	near.LanPorts = []string{"ve0"}
	w.near = w.site(w.gateway, w.ports, near)
	if led() {
		t.Fatal("the LAN is led to the bridge before any tunnel is up")
	}
	w.away = w.site(w.far, w.far, away)
	w.await("the LAN is led to the bridge", led)
	w.nat.Run("ip", "link", "set", "out", "down")
	w.await("the host routes the LAN itself", func() bool { return !led() })
	w.nat.Run("ip", "link", "set", "out", "up")
	w.await("the LAN is led to the bridge again", led)
	w.near.end()
	if led() {
		t.Fatal("the LAN is led to the bridge without an agent that has tunnels")
	}
}

func TestHostReachesTheOtherSiteOverATunnelThatIsUp(t *testing.T) {
	w := newWorld(t, false)
	w.gateway.Run("ip", "link", "add", "lte", "type", "veth", "peer", "name", "cell", "netns", w.nat.Path())
	w.addresses(w.gateway, "lte", "10.0.1.2/24")
	w.addresses(w.nat, "cell", "10.0.1.1/24")
	w.gateway.Run("ip", "route", "add", "default", "via", "10.0.1.1", "metric", "900")
	near, away := w.orders()
	near.Tunnels = append(near.Tunnels, second(near.Tunnels[0], farKeys))
	away.Tunnels = append(away.Tunnels, second(away.Tunnels[0], nearKeys))
	near.Tunnels[1].Device = "lte"
	way := func() string { return w.gateway.Run("ip", "route", "get", "203.0.113.9") }
	w.near, w.away = w.site(w.gateway, w.ports, near), w.site(w.far, w.far, away)
	up := func(at int) bool { return w.near.executor.Report().GetEnds()[at].GetReason() == "" }
	w.await("both tunnels are up", func() bool { return up(0) && up(1) })
	w.await("the preferred tunnel leads", func() bool { return strings.Contains(way(), "dev wan ") })
	w.nat.Run("ip", "link", "set", "lan", "down")
	w.await("the other tunnel leads", func() bool { return strings.Contains(way(), "via 10.0.1.1 dev lte ") })
	w.nat.Run("ip", "link", "set", "lan", "up")
	w.await("the preferred tunnel leads again", func() bool { return strings.Contains(way(), "via 10.0.0.1 dev wan ") })
	w.gateway.Run("ip", "route", "add", "203.0.113.99", "via", "10.0.1.1", "proto", "98", "metric", "98") // a killed agent's
	w.near.end()
	if routes := w.gateway.Run("ip", "route", "show", "proto", "98"); routes != "" {
		t.Fatalf("%s, expected no route of ours after the end", routes)
	}
}
