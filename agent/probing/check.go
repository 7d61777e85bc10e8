// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"bicast/agent/probing/bandwidth"
	"bicast/api/agentv1"
	"bicast/internal/plural"
)

const (
	mostSessions = 256
	mostPaths    = 64
	mostPort     = 1<<16 - 1
	mostNumber   = 1<<16 - 1 // of a session
	shortPause   = 20        // ms between health packets
	longPause    = 60_000

	shortestUp, shortestDown, longest = 16, 64, 1440 // bytes of UDP payload
	shortestPause                     = 200          // µs between probe packets
	mostInTrain                       = 200
	mostPackets                       = 20_000 // limit of one Probed message
	mostTime                          = 30 * time.Minute
)

var errEnding = errors.New("this agent is ending and accepts no orders")

// deviceName matches the device names that the controller accepts (controller/edges/config/document.py).
var deviceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}$`)

// checkAnswer returns what is wrong with an Answer order.
func checkAnswer(order *agentv1.AnswerProbes) error {
	sessions := order.GetSessions()
	if len(sessions) > mostSessions {
		return fmt.Errorf("%s, expected at most %d", plural.Of(len(sessions), "session"), mostSessions)
	}
	numbers, health, probes := map[uint32]bool{}, map[uint32]bool{}, map[uint32]bool{}
	for _, each := range sessions {
		if err := checkSession(each); err != nil {
			return fmt.Errorf("session %d: %w", each.GetNumber(), err)
		}
		port := each.GetProbePort()
		if numbers[each.GetNumber()] || probes[port] {
			return fmt.Errorf("session %d: another session has the same number or the same probe port %d, expected unique ones",
				each.GetNumber(), port)
		}
		numbers[each.GetNumber()], health[each.GetHealthPort()], probes[port] = true, true, port != 0
	}
	for port := range health {
		if probes[port] {
			return fmt.Errorf("port %d is used for health and for probes, expected different ports", port)
		}
	}
	return nil
}

func checkSession(s *agentv1.AnswerSession) error {
	switch {
	case s.GetNumber() == 0 || s.GetNumber() > mostNumber:
		return fmt.Errorf("wrong number, expected 1 to %d", mostNumber)
	case s.GetProbePort() > mostPort:
		return fmt.Errorf("probe port %d, expected at most %d", s.GetProbePort(), mostPort)
	default:
		return cmp.Or(checkPort("health port", s.GetHealthPort()), checkKey(s.GetKey()))
	}
}

// checkHealth returns what is wrong with a Health order.
func checkHealth(order *agentv1.HealthProbes) error {
	type session struct {
		remote       netip.Addr
		port, number uint32
	}
	all := order.GetPaths()
	if len(all) > mostPaths {
		return fmt.Errorf("%s, expected at most %d", plural.Of(len(all), "path"), mostPaths)
	}
	names, sessions := map[string]bool{"": true}, map[session]bool{}
	for _, each := range all {
		if names[each.GetName()] {
			return fmt.Errorf("path name %q is empty or used twice, expected a unique name for each path", each.GetName())
		}
		if err := checkPath(each); err != nil {
			return fmt.Errorf("path %q: %w", each.GetName(), err)
		}
		_, to := ends(each.GetRoute(), each.GetPort())
		this := session{to.Addr(), each.GetPort(), each.GetNumber()}
		if sessions[this] {
			return fmt.Errorf("path %q: another path has session %d at %v, too, expected a session for each path",
				each.GetName(), each.GetNumber(), to)
		}
		names[each.GetName()], sessions[this] = true, true
	}
	return nil
}

func checkPath(p *agentv1.HealthPath) error {
	switch {
	case p.GetNumber() == 0 || p.GetNumber() > mostNumber:
		return fmt.Errorf("session %d, expected 1 to %d", p.GetNumber(), mostNumber)
	case p.GetPauseMs() < shortPause || p.GetPauseMs() > longPause:
		return fmt.Errorf("a pause of %d ms, expected %d to %d", p.GetPauseMs(), shortPause, longPause)
	default:
		return checkPeer(p.GetRoute(), p.GetPort(), p.GetKey())
	}
}

// planOf returns the plan of a probe, or what is wrong with the order.
func planOf(order *agentv1.Probe) (bandwidth.Plan, error) {
	plan, err := parsePlan(order)
	if err == nil {
		err = checkPeer(order.GetRoute(), order.GetPort(), order.GetKey())
	}
	if err != nil {
		return plan, fmt.Errorf("probe of %q: %w", order.GetName(), err)
	}
	return plan, nil
}

func parsePlan(order *agentv1.Probe) (plan bandwidth.Plan, err error) {
	shortest := uint32(shortestUp)
	if order.GetDown() {
		shortest = shortestDown
	}
	first, last, step := order.GetShortestBytes(), order.GetLongestBytes(), order.GetStepBytes()
	switch {
	case order.GetName() == "":
		return plan, errors.New("no name, expected the uplink's")
	case first < shortest || first > last || last > longest || step == 0:
		return plan, fmt.Errorf("%d to %d bytes in steps of %d, expected %d to %d in steps of 1 or more", first, last, step, shortest, longest)
	case order.GetPauseUs() < shortestPause:
		return plan, fmt.Errorf("a pause of %d µs, expected %d or more", order.GetPauseUs(), shortestPause)
	case order.GetTrains() > 0 && (order.GetTrainPackets() < 2 || order.GetTrainPackets() > mostInTrain):
		return plan, fmt.Errorf("trains of %d packets, expected 2 to %d", order.GetTrainPackets(), mostInTrain)
	case order.GetTries() > mostPackets || order.GetTrains() > mostPackets:
		return plan, fmt.Errorf("%d tries and %d trains, expected %d packets at most", order.GetTries(), order.GetTrains(), mostPackets)
	}
	for length := first; length <= last; length += min(step, longest) {
		plan.Lengths = append(plan.Lengths, int(length))
	}
	plan.Tries, plan.Every = int(order.GetTries()), time.Duration(order.GetPauseUs())*time.Microsecond
	plan.Down, plan.Trains, plan.TrainPackets = order.GetDown(), int(order.GetTrains()), int(order.GetTrainPackets())
	if packets(plan) > mostPackets || lasts(plan) > mostTime {
		return plan, fmt.Errorf("%d packets in %v, expected %d in %v at most", packets(plan), lasts(plan), mostPackets, mostTime)
	}
	return plan, plan.Check()
}

func packets(plan bandwidth.Plan) int {
	return len(plan.Lengths)*plan.Tries + plan.Trains*plan.TrainPackets
}

// lasts returns the sending time. Each train is followed by a pause as long as its packets would take singly.
func lasts(plan bandwidth.Plan) time.Duration { return time.Duration(packets(plan)) * plan.Every }

func checkPeer(way *agentv1.ProbeRoute, port uint32, key []byte) error {
	from, to := ends(way, port)
	switch {
	case way.GetDevice() != "" && !deviceName.MatchString(way.GetDevice()):
		return fmt.Errorf("device %q, expected the name of a network device, or none", way.GetDevice())
	case !isHost(to.Addr()):
		return fmt.Errorf("remote %q, expected the address of one host", way.GetRemote())
	case way.GetLocal() != "" && (!isHost(from.Addr()) || from.Addr().Is4() != to.Addr().Is4()):
		return fmt.Errorf("local %q, expected an address of this host of the remote's kind, or none", way.GetLocal())
	default:
		return cmp.Or(checkPort("port", port), checkKey(key))
	}
}

// ends parses the addresses of a way without checking them.
func ends(way *agentv1.ProbeRoute, port uint32) (from, to netip.AddrPort) {
	local, _ := netip.ParseAddr(way.GetLocal())
	remote, _ := netip.ParseAddr(way.GetRemote())
	if way.GetLocal() != "" {
		from = netip.AddrPortFrom(local.Unmap(), 0)
	}
	return from, netip.AddrPortFrom(remote.Unmap(), uint16(port))
}

func isHost(address netip.Addr) bool {
	return address.IsValid() && !address.IsUnspecified() && !address.IsMulticast() && address.Zone() == "" &&
		address != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func checkPort(what string, port uint32) error {
	if port == 0 || port > mostPort {
		return fmt.Errorf("%s %d, expected 1 to %d", what, port, mostPort)
	}
	return nil
}

func checkKey(key []byte) error {
	if len(key) != len(bandwidth.Key{}) {
		return fmt.Errorf("a key of %d bytes, expected %d", len(key), len(bandwidth.Key{}))
	}
	return nil
}
