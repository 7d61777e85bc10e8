// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"bicast/api/agentv1"
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
		return e.host.kernel.deleteHostRoute(remote)
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
		if err := e.host.kernel.deleteHostRoute(before.remote); err != nil {
			return err
		}
	}
	if err := e.host.kernel.changeHostRoute(unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, remote, w); err != nil {
		return err
	}
	before.remote, before.over, before.way, before.setAt = remote, over, w, now
	e.host.route = before
	e.log.Info("this host's packets to the other site leave as the tunnel does", "tunnel", over)
	return nil
}

// defaults returns the default route of each device, by its index: the one with the lowest metric.
func (k *kernel) defaults(remote netip.Addr) (map[int]way, error) {
	routes, err := k.routes(familyOf(remote))
	if err != nil {
		return nil, err
	}
	found, metrics := map[int]way{}, map[int]uint32{}
	for _, route := range routes {
		w, metric, err := defaultRoute(route.Data)
		if err != nil {
			return nil, err
		}
		if before, there := metrics[w.device]; w.device != 0 && (!there || metric < before) {
			found[w.device], metrics[w.device] = w, metric
		}
	}
	return found, nil
}

// defaultRoute decodes a default route of the main table. Other routes have no device.
func defaultRoute(b []byte) (w way, metric uint32, err error) {
	if len(b) < unix.SizeofRtMsg || b[1] != 0 || b[4] != unix.RT_TABLE_MAIN || b[7] != unix.RTN_UNICAST {
		return way{}, 0, nil
	}
	if w, err = decodeRoute(b); err != nil {
		return way{}, 0, err
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return way{}, 0, err
	}
	for attributes.Next() {
		if attributes.Type() == unix.RTA_PRIORITY {
			metric = attributes.Uint32()
		}
	}
	return way{device: w.device, gateway: w.gateway}, metric, attributes.Err()
}

func (k *kernel) routes(family byte) ([]netlink.Message, error) {
	header := make([]byte, unix.SizeofRtMsg)
	header[0] = family
	routes, err := k.outer.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump}, Data: header,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the routes: %w", err)
	}
	return routes, nil
}

func familyOf(remote netip.Addr) byte {
	if remote.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// removeHostRoutes removes all of our routes, also those of a killed agent.
func (k *kernel) removeHostRoutes() error {
	var failures []error
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		routes, err := k.routes(family)
		failures = append(failures, err)
		for _, route := range routes {
			if remote, ours := ourDestination(route.Data); ours {
				failures = append(failures, k.deleteHostRoute(remote))
			}
		}
	}
	return errors.Join(failures...)
}

// ourDestination returns the destination of a route that has our mark.
func ourDestination(b []byte) (remote netip.Addr, ours bool) {
	if len(b) < unix.SizeofRtMsg || b[5] != routeProtocol {
		return netip.Addr{}, false
	}
	attributes, err := netlink.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return netip.Addr{}, false
	}
	for attributes.Next() {
		if attributes.Type() == unix.RTA_DST {
			remote, ours = netip.AddrFromSlice(attributes.Bytes())
		}
	}
	return remote, ours
}

func (k *kernel) deleteHostRoute(remote netip.Addr) error {
	err := k.changeHostRoute(unix.RTM_DELROUTE, 0, remote, way{})
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// changeHostRoute adds or deletes our route to one address. A way without a device matches any.
func (k *kernel) changeHostRoute(kind uint16, flags netlink.HeaderFlags, remote netip.Addr, w way) error {
	attributes := netlink.NewAttributeEncoder()
	attributes.Bytes(unix.RTA_DST, remote.AsSlice())
	attributes.Uint32(unix.RTA_PRIORITY, routeMetric)
	if w.device != 0 {
		attributes.Uint32(unix.RTA_OIF, uint32(w.device))
	}
	if w.gateway.IsValid() {
		attributes.Bytes(unix.RTA_GATEWAY, w.gateway.AsSlice())
	}
	if err := change(k.outer, kind, flags, routeHeader(remote, w), attributes); err != nil {
		return fmt.Errorf("cannot change the route to %v: %w", remote, err)
	}
	return nil
}

// routeHeader encodes struct rtmsg.
func routeHeader(remote netip.Addr, w way) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = familyOf(remote), byte(remote.BitLen())
	scope := byte(unix.RT_SCOPE_UNIVERSE)
	switch {
	case w.device == 0:
		scope = unix.RT_SCOPE_NOWHERE // deletes a route of any scope
	case !w.gateway.IsValid():
		scope = unix.RT_SCOPE_LINK
	}
	b[4], b[5], b[6], b[7] = unix.RT_TABLE_MAIN, routeProtocol, scope, unix.RTN_UNICAST
	return b
}
