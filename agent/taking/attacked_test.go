package taking_test

import (
	"slices"
	"strings"
	"testing"
)

// As systemd-networkd does where it begins anew, and people who try things out.
func TestRulesAndRoutesThatSomebodyTakesAwayAreMadeAgain(t *testing.T) {
	for _, words := range []string{
		"ip rule del priority 11", "ip rule flush protocol 202", "ip -6 rule flush protocol 202",
		"ip route flush table 45514", "ip link set dev rl-wifi-h down",
	} {
		t.Run(words, func(t *testing.T) {
			h := ordered(t, true, "tokyo")
			state := func() []string {
				return strings.Split(h.gateway.Run("ip", "rule")+h.gateway.Run("ip", "-6", "rule")+
					h.gateway.Run("ip", "route", "show", "table", "all")+h.gateway.Run("ip", "-6", "route", "show", "table", "all"), "\n")
			}
			before := state()
			h.gateway.Run(strings.Fields(words)...)
			h.eventually("all is there again", func() bool {
				after := state()
				return !slices.ContainsFunc(before, func(one string) bool { return !slices.Contains(after, one) })
			})
			h.sees(television4, server4, relay4)
		})
	}
}
