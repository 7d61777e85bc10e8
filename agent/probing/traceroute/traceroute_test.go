// SPDX-License-Identifier: Apache-2.0

package traceroute

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/api/agentv1"
	"bicast/internal/lab"
)

// chain returns hosts in a row. All but the ends are routers. The networks between them are 10.0.N.0/24 and fd0N::/64, where
// the left host has .1 and ::1, the right one .2 and ::2.
func chain(t *testing.T, length int) []*lab.Host {
	var hosts []*lab.Host
	for range length {
		host := lab.One(t)
		host.Sysctl("ipv6/conf/default/accept_dad", "0")
		host.Sysctl("ipv4/ip_forward", "1")
		host.Sysctl("ipv6/conf/all/forwarding", "1")
		hosts = append(hosts, host)
	}
	for n := 1; n < length; n++ {
		left, right := hosts[n-1], hosts[n]
		left.Run("ip", "link", "add", "right", "type", "veth", "peer", "name", "left", "netns", right.Path())
		for _, end := range []struct {
			host   *lab.Host
			device string
			last   int
		}{{left, "right", 1}, {right, "left", 2}} {
			end.host.Run("ip", "link", "set", end.device, "up")
			end.host.Run("ip", "address", "add", fmt.Sprintf("10.0.%d.%d/24", n, end.last), "dev", end.device)
			end.host.Run("ip", "address", "add", fmt.Sprintf("fd0%d::%d/64", n, end.last), "dev", end.device, "nodad")
		}
	}
	for n := range length - 1 {
		for far := n + 2; far < length; far++ {
			hosts[n].Run("ip", "route", "add", fmt.Sprintf("10.0.%d.0/24", far), "via", fmt.Sprintf("10.0.%d.2", n+1))
			hosts[n].Run("ip", "route", "add", fmt.Sprintf("fd0%d::/64", far), "via", fmt.Sprintf("fd0%d::2", n+1))
		}
	}
	for n := 2; n < length; n++ {
		hosts[n].Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", n))
		hosts[n].Run("ip", "-6", "route", "add", "default", "via", fmt.Sprintf("fd0%d::1", n))
	}
	return hosts
}

func to(address string, port uint16) Target {
	return Target{Address: netip.MustParseAddr(address), Port: port, Routers: true}
}

func routers(distance Distance) string {
	var all []string
	for _, each := range distance.Routers {
		all = append(all, each.Address.String())
	}
	return strings.Join(all, " ")
}

func listens(t *testing.T, host *lab.Host, at string) {
	var listener net.Listener
	host.Do(func() (err error) {
		listener, err = net.Listen("tcp", at)
		return err
	})
	t.Cleanup(func() { listener.Close() })
}

func TestTraceFindsRoundTripsAndRouters(t *testing.T) {
	for who, groups := range map[string]string{"who may send raw packets": "1 0", "everybody": "0 2147483647"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			measures(t, groups)
		})
	}
}

func measures(t *testing.T, groups string) {
	hosts := chain(t, 5)
	hosts[0].Sysctl("ipv4/ping_group_range", groups)
	silence(hosts[2], "output", "icmp type time-exceeded", "icmpv6 type time-exceeded")
	last := hosts[4]
	for _, address := range []string{"10.0.4.3/24", "10.0.4.4/24", "fd04::3/64"} {
		last.Run("ip", "address", "add", address, "dev", "left", "nodad")
	}
	silence(last, "input", "ip daddr 10.0.4.3 icmp type echo-request", "ip6 daddr fd04::3 icmpv6 type echo-request",
		"ip daddr 10.0.4.4")
	listens(t, last, "10.0.4.3:443")
	reached := map[Target]string{
		to("10.0.4.2", 0):                          "10.0.1.2 invalid IP 10.0.3.2",
		to("fd04::2", 0):                           "fd01::2 invalid IP fd03::2",
		to("10.0.4.3", 443):                        "10.0.1.2 invalid IP 10.0.3.2", // by TCP only
		to("fd04::3", 80):                          "fd01::2 invalid IP fd03::2",   // with a RST
		to("10.0.1.2", 0):                          "",
		{Address: netip.MustParseAddr("10.0.2.2")}: "", // no routers requested
	}
	lost := map[Target]string{
		to("10.0.4.4", 443): "10.0.4.4 does not answer pings or TCP SYNs at port 443",
		to("45.0.0.1", 443): "cannot send packets there: network is unreachable",
	}
	all := slices.Concat(slices.Collect(maps.Keys(reached)), slices.Collect(maps.Keys(lost)))
	late := time.Now().Add(time.Minute)
	for wrong := []string{"not measured yet"}; len(wrong) > 0; { // retry, because a stalled machine answers too late
		if time.Now().After(late) {
			t.Fatal(strings.Join(wrong, "\n"))
		}
		wrong = nil
		for n, distance := range Measure(context.Background(), hosts[0].Try, all) {
			if reason, is := lost[all[n]]; is {
				if distance.Reason != reason || distance.RTT != 0 || distance.Lost != distance.Sent {
					wrong = append(wrong, fmt.Sprintf("to %v: %+v, expected %q", all[n], distance, reason))
				}
			} else if want := reached[all[n]]; distance.Reason != "" || distance.RTT == 0 || distance.RTT > patience || routers(distance) != want {
				wrong = append(wrong, fmt.Sprintf("to %v: %+v, expected the routers %q", all[n], distance, want))
			}
		}
	}
}

func silence(host *lab.Host, hook string, what ...string) {
	host.Run("nft", "add", "table", "inet", "quiet")
	host.Run("nft", fmt.Sprintf("add chain inet quiet %s { type filter hook %s priority 0; }", hook, hook))
	for _, each := range what {
		host.Run("nft", fmt.Sprintf("add rule inet quiet %s %s drop", hook, each))
	}
}

func TestOrderRunsOneTraceAtATime(t *testing.T) {
	t.Parallel()
	hosts := chain(t, 3)
	executor := NewExecutor(hosts[0].Try)
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		executor.Run(ctx)
	}()
	order := &agentv1.MeasureDistances{Targets: []*agentv1.DistanceTarget{{Address: "10.0.2.2", Routers: true}}}
	for id := uint64(1); id <= 2; id++ {
		if said, err := executor.Order(id, order); err != nil {
			t.Fatalf("%q, %v", said, err)
		}
		if said, err := executor.Order(99, order); err == nil || !strings.Contains(err.Error(), "one at a time") {
			t.Fatalf("%q, %v: expected a refusal while another traceroute is running", said, err)
		}
		measured := <-executor.DistancesMeasured()
		distance := measured.GetDistances()[0]
		if measured.GetDirective() != id || distance.GetAddress() != "10.0.2.2" || distance.GetReason() != "" || distance.GetRttUs() == 0 ||
			distance.GetSent() != echoCount || len(distance.GetRouters()) != 1 || distance.GetRouters()[0].GetAddress() != "10.0.1.2" {
			t.Fatalf("%v", measured)
		}
	}
	for words, bad := range map[string]*agentv1.MeasureDistances{
		"0 destinations, expected 1 to 64":   {},
		"65 destinations":                    {Targets: make([]*agentv1.DistanceTarget, 65)},
		`address "a.example"`:                {Targets: []*agentv1.DistanceTarget{{Address: "a.example"}}},
		`address "ff02::1"`:                  {Targets: []*agentv1.DistanceTarget{{Address: "ff02::1"}}},
		`address "fe80::1%eth0"`:             {Targets: []*agentv1.DistanceTarget{{Address: "fe80::1%eth0"}}},
		"is listed twice":                    {Targets: []*agentv1.DistanceTarget{{Address: "10.0.2.2"}, {Address: "::ffff:10.0.2.2"}}},
		"port 65536, expected at most 65535": {Targets: []*agentv1.DistanceTarget{{Address: "10.0.2.2", Port: 65536}}},
	} {
		if said, err := executor.Order(3, bad); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q, %v: expected a refusal with %q", said, err, words)
		}
	}
	if _, err := executor.Order(4, &agentv1.MeasureDistances{Targets: []*agentv1.DistanceTarget{{Address: "10.0.2.9", Port: 443}}}); err != nil {
		t.Fatal(err)
	}
	end()
	<-ended
	if _, err := executor.Order(5, order); err == nil {
		t.Fatal("a measurement began on an ending agent")
	}
}
