// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"time"

	"bicast/api/agentv1"
	"bicast/relay/proxy"
)

// A relay that was reached within this time counts as reachable, even if the watcher disagrees.
const reachableFor = 3 * time.Second

const notOpenedYet = "no connection to it has been opened yet"

// report returns the state of what the order contains.
func (s *interception) report(order *agentv1.Intercept) *agentv1.InterceptionReport {
	report := &agentv1.InterceptionReport{}
	if s.blocked != nil {
		report.Reason = s.blocked.Error()
	}
	for _, each := range order.GetRelays() {
		relay := s.relays[each.GetName()]
		if relay == nil {
			continue
		}
		stored := 0
		for _, terminal := range s.terminals {
			n, _ := terminal.way.Stored(relay)
			stored += n
		}
		took, _ := relay.Setup()
		report.Relays = append(report.Relays, &agentv1.RelayReached{
			Name: relay.Name, Reason: s.reason(relay), Connections: uint32(relay.Connections()), Opened: uint32(stored),
			SetupUs: uint32(took.Microseconds()),
		})
	}
	for _, each := range order.GetTerminals() {
		if one := s.terminals[each.GetName()]; one != nil {
			report.Terminals = append(report.Terminals, message(each.GetName(), one.way.Totals()))
		}
	}
	for _, each := range s.plan.Undecided.Last(s.plan.Choices) {
		report.Pending = append(report.Pending, &agentv1.PendingDestination{
			Prefix: each.Prefix.String(), Address: each.To.Addr().String(), Port: uint32(each.To.Port()),
		})
	}
	return report
}

func message(name string, totals proxy.Totals) *agentv1.TerminalInterception {
	return &agentv1.TerminalInterception{
		Name: name, Connections: uint32(totals.Connections), Relayed: totals.Relayed, Direct: totals.Direct, Reset_: totals.Reset,
		BytesUp: totals.Up, BytesDown: totals.Down,
	}
}

// reason returns why a relay is unreachable, or "" if it is reachable or no terminal watches it.
func (s *interception) reason(relay *proxy.Relay) string {
	took, at := relay.Setup()
	for _, each := range s.terminals {
		if !each.watches {
			continue
		}
		switch _, err := each.way.Stored(relay); {
		case time.Since(at) < reachableFor:
		case err != nil:
			return err.Error()
		case took == 0:
			return notOpenedYet
		}
	}
	return ""
}

// tend maintains the redirection, and logs changes once.
func (s *interception) tend() {
	if err := s.mend(); err != nil {
		s.proxy.Trouble.Warn("cannot restore the redirection of terminals' connections", "reason", err)
	}
	blocked := s.checkFirewall(time.Now())
	if blocked != nil && s.blocked == nil {
		s.log.Warn("terminals' connections do not reach the proxy", "reason", blocked)
	}
	s.blocked = blocked
	for _, relay := range s.plan.Relays {
		reason := s.reason(relay)
		if reason == s.logged[relay] || reason == notOpenedYet {
			continue
		}
		s.logged[relay] = reason
		if reason == "" {
			s.log.Info("the relay is reachable", "relay", relay.Name, "at", relay.At)
		} else {
			s.log.Warn("the relay is unreachable", "relay", relay.Name, "at", relay.At, "reason", reason)
		}
	}
}
