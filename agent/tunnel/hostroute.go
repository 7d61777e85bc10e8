// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
	"bicast/internal/route"
)

const (
	routeProtocol = 98               // marks our routes; not in /etc/iproute2/rt_protos
	routeMetric   = 98               // a route of the administrator precedes ours
	setAgainAfter = 10 * time.Second // another route may have precedence
)

// settles is how long a preferred tunnel is up before the host's packets return to it: their connections break each time.
const settles = 30 * time.Second

// hostRoute leads the host's own packets to the other site over a tunnel's device that works. The controller may be there,
// and the host's default route stays at an uplink whose provider fails behind its router.
type hostRoute struct {
	remote  netip.Addr
	over    string // the tunnel whose way it has
	way     way
	setAt   time.Duration
	better  string // a preferred tunnel that is up
	upSince time.Duration
}

// follow moves the route to the first tunnel that is up. Tunnels without a device of their own, or to several addresses,
// have no such route.
func (e *Executor) follow() {
	remote, only := onlyRemote(e.order)
	if !only {
		return
	}
	if err := e.moveHostRoute(remote); err != nil {
		e.log.Error("cannot lead this host's packets to the other site over a tunnel that is up", "reason", err)
	}
}

func (e *Executor) moveHostRoute(remote netip.Addr) error {
	defaults, err := e.host.kernel.defaults(remote)
	if err != nil {
		return err
	}
	ways := map[string]way{}
	first := ""
	for _, each := range e.order.GetTunnels() {
		// A tunnel's own way is by our route. Only the device's default route knows another router.
		if w, there := defaults[e.tunnels[each.GetName()].liveDevice()]; there {
			ways[each.GetName()] = w
			first = cmp.Or(first, each.GetName())
		}
	}
	if first == "" {
		return route.Delete(e.host.kernel.outer, hostRouteTo(remote, way{}))
	}
	over := e.host.route.settled(ways, first, e.host.now(), e.settles)
	return e.setHostRoute(remote, over, ways[over])
}

// settled returns the tunnel to use: the present one while it is up, or the preferred one if that has been up for long.
func (r *hostRoute) settled(ways map[string]way, first string, now, long time.Duration) string {
	if _, up := ways[r.over]; !up || first == r.over {
		r.better = ""
		return first
	}
	if r.better != first {
		r.better, r.upSince = first, now
	}
	if now-r.upSince >= long {
		return first
	}
	return r.over
}

// onlyRemote returns the address of the other site if each tunnel leaves to it by a device of its own.
func onlyRemote(order *agentv1.Tunnels) (remote netip.Addr, only bool) {
	for _, each := range order.GetTunnels() {
		to := remoteOf(each)
		if !to.IsValid() || each.GetDevice() == "" || remote.IsValid() && to != remote {
			return netip.Addr{}, false
		}
		remote = to
	}
	return remote, remote.IsValid()
}

func (e *Executor) setHostRoute(remote netip.Addr, over string, w way) error {
	now, before := e.host.now(), e.host.route
	there, err := e.host.kernel.route(0, remote)
	if err != nil {
		return err
	}
	same := before.remote == remote && before.way == w
	if there.device == w.device && there.gateway == w.gateway || same && now-before.setAt < setAgainAfter {
		e.host.route.over = over
		return nil
	}
	if before.remote.IsValid() && before.remote != remote {
		if err := route.Delete(e.host.kernel.outer, hostRouteTo(before.remote, way{})); err != nil {
			return err
		}
	}
	if err := route.Set(e.host.kernel.outer, hostRouteTo(remote, w)); err != nil {
		return err
	}
	before.remote, before.over, before.way, before.setAt = remote, over, w, now
	e.host.route = before
	e.log.Info("this host's packets to the other site leave as the tunnel does", "tunnel", over)
	return nil
}

// defaults returns the default route of each device, by its index: the one with the lowest metric.
func (k *kernel) defaults(remote netip.Addr) (map[int]way, error) {
	all, err := route.All(k.outer, route.Family(remote))
	if err != nil {
		return nil, err
	}
	found, metrics := map[int]way{}, map[int]uint32{}
	for _, each := range all {
		if each.Destination.Bits() != 0 || each.Table != unix.RT_TABLE_MAIN || each.Kind != unix.RTN_UNICAST {
			continue
		}
		if before, there := metrics[each.Device]; !there || each.Metric < before {
			found[each.Device], metrics[each.Device] = way{device: each.Device, gateway: each.Gateway}, each.Metric
		}
	}
	return found, nil
}

// hostRouteTo returns our route to one address over a way, or over any.
func hostRouteTo(remote netip.Addr, w way) route.Route {
	return route.Route{
		Table: unix.RT_TABLE_MAIN, Protocol: routeProtocol, Kind: unix.RTN_UNICAST, Metric: routeMetric,
		Destination: netip.PrefixFrom(remote, remote.BitLen()), Device: w.device, Gateway: w.gateway,
	}
}

// removeHostRoutes removes all of our routes, also those of a killed agent.
func (k *kernel) removeHostRoutes() error {
	var failures []error
	for _, family := range route.Families {
		all, err := route.All(k.outer, family)
		failures = append(failures, err)
		for _, each := range all {
			if each.Protocol == routeProtocol && each.Table == unix.RT_TABLE_MAIN {
				failures = append(failures, route.Delete(k.outer, each))
			}
		}
	}
	return errors.Join(failures...)
}
