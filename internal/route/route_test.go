// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/internal/lab"
)

// table has no routes of the kernel.
const table = 1000

// host is one with the devices one, two and three (indices 101 to 103), and with a handle of its kernel.
func host(t *testing.T) (*lab.Host, *netlink.Conn) {
	h := lab.One(t)
	for number, name := range []string{"one", "two", "three"} {
		third := string(rune('1' + number))
		h.Run("ip", "link", "add", "name", name, "index", "10"+third, "type", "veth", "peer", "name", name+"-peer")
		h.Run("ip", "link", "set", name, "up")
		h.Run("ip", "link", "set", name+"-peer", "up")
		h.Run("ip", "address", "add", "10.0."+third+".2/24", "dev", name)
		h.Run("ip", "address", "add", "fd00:"+third+"::2/64", "dev", name, "nodad")
	}
	var conn *netlink.Conn
	h.Do(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_ROUTE, nil)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return h, conn
}

func over(device int, to, gateway string, metric uint32) Route {
	return Route{
		Table: table, Protocol: 98, Kind: unix.RTN_UNICAST, Destination: netip.MustParsePrefix(to), Metric: metric,
		Device: device, Gateway: netip.MustParseAddr(gateway),
	}
}

// ours returns the routes of the table.
func ours(t *testing.T, conn *netlink.Conn, family byte) []Route {
	t.Helper()
	all, err := All(conn, family)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r Route) bool { return r.Table != table })
}

func TestARouteIsReadAsItWasSetUntilItIsDeleted(t *testing.T) {
	_, conn := host(t)
	for family, each := range map[byte]Route{
		unix.AF_INET:  over(101, "198.51.100.7/32", "10.0.1.1", 7),
		unix.AF_INET6: over(102, "::/0", "fd00:2::1", 9),
	} {
		if err := Set(conn, each); err != nil {
			t.Fatal(err)
		}
		if found := ours(t, conn, family); !slices.Equal(found, []Route{each}) {
			t.Errorf("%+v, expected %+v", found, each)
		}
		each.Device, each.Gateway = 0, netip.Addr{}
		for range 2 { // the second finds none
			if err := Delete(conn, each); err != nil {
				t.Error(err)
			}
		}
		if found := ours(t, conn, family); len(found) != 0 {
			t.Errorf("%+v, expected none", found)
		}
	}
}

func TestARouteWithoutGatewayReplacesOneWithIt(t *testing.T) {
	_, conn := host(t)
	before := over(101, "0.0.0.0/0", "10.0.1.1", 7)
	after := before
	after.Device, after.Gateway = 102, netip.Addr{}
	unreachable := Route{Table: table, Protocol: 98, Kind: unix.RTN_UNREACHABLE, Destination: Default(unix.AF_INET), Metric: 9}
	for _, each := range []Route{before, after, unreachable} {
		if err := Set(conn, each); err != nil {
			t.Fatal(err)
		}
	}
	if found := ours(t, conn, unix.AF_INET); !slices.Equal(found, []Route{after, unreachable}) {
		t.Errorf("%+v, expected %+v", found, []Route{after, unreachable})
	}
}

func TestSettingARouteAgainIsNoChange(t *testing.T) {
	h, conn := host(t)
	var watch *netlink.Conn
	h.Do(func() (err error) {
		groups := uint32(1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1))
		watch, err = netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: groups})
		return err
	})
	defer watch.Close()
	unreachable := Route{Table: table, Protocol: 98, Kind: unix.RTN_UNREACHABLE, Destination: Default(unix.AF_INET6), Metric: 9}
	for _, each := range []Route{over(101, "0.0.0.0/0", "10.0.1.1", 7), over(102, "::/0", "fd00:2::1", 7), unreachable} {
		for _, err := range []error{Set(conn, each), Set(conn, each), Delete(conn, each)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, expected := range []netlink.HeaderType{unix.RTM_NEWROUTE, unix.RTM_DELROUTE} {
			changes, err := watch.Receive()
			if err != nil || len(changes) != 1 || changes[0].Header.Type != expected {
				t.Fatalf("%+v: %v, %v, expected one change of type %d", each, changes, err, expected)
			}
		}
	}
}

func TestARouteOverSeveralNextHopsIsSeveral(t *testing.T) {
	h, conn := host(t)
	h.Run("ip", "route", "add", "default", "table", "1000", "proto", "98", "metric", "7",
		"nexthop", "via", "10.0.1.1", "nexthop", "via", "10.0.2.1", "nexthop", "dev", "three")
	expected := []Route{
		over(101, "0.0.0.0/0", "10.0.1.1", 7), over(102, "0.0.0.0/0", "10.0.2.1", 7), over(103, "0.0.0.0/0", "10.0.3.1", 7),
	}
	expected[2].Gateway = netip.Addr{}
	if found := ours(t, conn, unix.AF_INET); !slices.Equal(found, expected) {
		t.Errorf("%+v, expected %+v", found, expected)
	}
}

func TestAPacketsRouteDependsOnItsDeviceAndMark(t *testing.T) {
	h, conn := host(t)
	h.Run("ip", "route", "add", "default", "via", "10.0.1.1", "metric", "1")
	h.Run("ip", "route", "add", "default", "via", "10.0.2.1", "metric", "2")
	h.Run("ip", "rule", "add", "fwmark", "5", "lookup", "1000")
	h.Run("ip", "route", "add", "default", "via", "10.0.3.1", "table", "1000")
	to := netip.MustParseAddr("198.51.100.7")
	for _, each := range []struct {
		packet          Packet
		device          int
		gateway, source string
	}{
		{Packet{To: to}, 101, "10.0.1.1", "10.0.1.2"},
		{Packet{To: to, Device: 102}, 102, "10.0.2.1", "10.0.2.2"},
		{Packet{To: to, Mark: 5}, 103, "10.0.3.1", "10.0.3.2"},
	} {
		found, err := Of(conn, each.packet)
		if err != nil {
			t.Fatal(err)
		}
		if found.Device != each.device || found.Gateway.String() != each.gateway || found.Source.String() != each.source {
			t.Errorf("%+v: %+v, expected %+v", each.packet, found, each)
		}
	}
}

func TestTheKernelsReasonIsKept(t *testing.T) {
	_, conn := host(t)
	_, err := Of(conn, Packet{To: netip.MustParseAddr("198.51.100.7")})
	if refused := (*netlink.OpError)(nil); !errors.As(err, &refused) || !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("%v, expected the kernel to have no route", err)
	}
	err = Set(conn, over(101, "0.0.0.0/0", "192.0.2.1", 7))
	if !errors.Is(err, unix.ENETUNREACH) || !strings.Contains(err.Error(), "0.0.0.0/0") {
		t.Errorf("%v, expected it to name the route", err)
	}
}

func FuzzDecodeDoesNotPanic(f *testing.F) {
	f.Add(make([]byte, 40))
	hop := []byte{8, 0, 0, 0, 101, 0, 0, 0}
	for _, hops := range [][]byte{hop, append(hop, hop...), hop[:4], append([]byte{12}, hop[1:]...), append([]byte{7}, hop[1:]...)} {
		message := append(make([]byte, unix.SizeofRtMsg), byte(4+len(hops)), 0, unix.RTA_MULTIPATH, 0)
		f.Add(append(message, hops...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if found, err := decode(b); err == nil && len(found) == 0 {
			t.Error("no route, expected at least one")
		}
	})
}
