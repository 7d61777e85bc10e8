// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"bicast/internal/ratelog"
	"bicast/mptcp"
	"bicast/relay/proxy"
)

// A subflow that ended, or could not be made, is retried after a pause that doubles each time.
const (
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
)

// kernel is the part of *mptcp.Handle that subflows needs.
type kernel interface {
	Create(c mptcp.Connection, id uint8, local netip.Addr, remote netip.AddrPort) error
	Destroy(c mptcp.Connection, s mptcp.Subflow) error
	Events(ctx context.Context) (<-chan mptcp.Event, error)
	Subflows() ([]mptcp.Connection, error)
}

// subflows adds subflows to connections to relays, and replaces subflows that end while the connection lives.
type subflows struct {
	kernel   kernel
	warnings *ratelog.Logger

	mutex  sync.Mutex
	onward map[netip.AddrPort][]netip.AddrPort // ports of other relays that lead to a relay too
	live   map[mptcp.Token]*relayConnection
}

// relayConnection is a connection to a relay with its wanted subflows.
type relayConnection struct {
	mptcp.Connection
	relay  netip.AddrPort
	locals *proxy.Locals
	ids    map[netip.Addr]uint8 // of our addresses
	paths  map[path]*subflow
}

type path struct {
	local netip.Addr
	to    netip.AddrPort
}

type subflow struct {
	port     uint16    // local port; 0: not established yet
	since    time.Time // time of establishment; zero: never
	pause    time.Duration
	retrying bool // a retry is scheduled
}

func (s *subflow) established(port uint16) {
	if s.port != port {
		s.port, s.since = port, time.Now()
	}
}

// setOnward sets the paths via other relays, and adds and removes subflows of live connections accordingly. New subflows leave
// by the uplinks that are the best now.
func (j *subflows) setOnward(relays []relay) {
	j.mutex.Lock()
	j.onward = map[netip.AddrPort][]netip.AddrPort{}
	for _, each := range relays {
		for _, way := range each.onward {
			if !each.draining {
				j.onward[way.to] = append(j.onward[way.to], way.here)
			}
		}
	}
	live := slices.Collect(maps.Values(j.live))
	j.mutex.Unlock()
	for _, one := range live {
		j.updatePaths(one)
	}
}

// join opens a subflow on each path except the first one's. The kernel retries a path without an answer for two minutes.
// It returns false if the connection is plain TCP and so cannot have subflows.
func (j *subflows) join(end net.Conn, locals *proxy.Locals, relay netip.AddrPort) bool {
	from := locals.Of(relay.Addr())
	if j.paths(from, relay) < 2 {
		return true
	}
	raw, err := end.(syscall.Conn).SyscallConn()
	if err != nil {
		return true // it has ended
	}
	connection, err := mptcp.OfSocket(raw)
	if err != nil {
		j.warnings.Warn("connections to the relay use one uplink only", "relay", relay, "reason", err)
		return false
	}
	began, _ := netip.ParseAddrPort(end.LocalAddr().String())
	one := &relayConnection{connection, relay, locals, addressIDs(began.Addr(), from), map[path]*subflow{
		{began.Addr(), relay}: {port: began.Port(), since: time.Now(), pause: minRetryDelay},
	}}
	j.mutex.Lock()
	j.live[connection.Token] = one
	j.mutex.Unlock()
	j.updatePaths(one)
	return true
}

func (j *subflows) paths(from []netip.Addr, relay netip.AddrPort) int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return len(j.wantedPaths(from, relay))
}

// wantedPaths returns the paths by each uplink to the relay, and those via other relays from the best uplink only. At the
// relay a subflow of the latter has the other relay's address, so the relay cannot know its uplink and set its backup
// flag. The caller holds the mutex.
func (j *subflows) wantedPaths(from []netip.Addr, relay netip.AddrPort) (all []path) {
	for _, local := range from {
		all = append(all, path{local, relay})
	}
	for _, each := range j.onward[relay] {
		if len(from) > 0 && each.Addr().Is4() == from[0].Is4() {
			all = append(all, path{from[0], each})
		}
	}
	return all
}

// updatePaths opens missing subflows of a connection and closes those that are no longer wanted.
func (j *subflows) updatePaths(one *relayConnection) {
	j.mutex.Lock()
	wantedPaths := j.wantedPaths(one.locals.Of(one.relay.Addr()), one.relay)
	var lacks []path
	surplus := map[path]*subflow{}
	for by, from := range one.paths {
		if !slices.Contains(wantedPaths, by) && by.to != one.relay {
			surplus[by] = from
			delete(one.paths, by)
		}
	}
	for _, by := range wantedPaths {
		if one.paths[by] == nil {
			one.paths[by] = &subflow{pause: minRetryDelay}
			lacks = append(lacks, by)
		}
	}
	j.mutex.Unlock()
	for _, by := range lacks {
		j.create(one, by)
	}
	for by, from := range surplus {
		j.destroy(one, by, from.port)
	}
}

// addressIDs returns the ids of our addresses. The address of the first subflow has 0.
func addressIDs(began netip.Addr, locals []netip.Addr) map[netip.Addr]uint8 {
	ids := map[netip.Addr]uint8{began: 0}
	for _, local := range locals {
		if local != began {
			ids[local] = uint8(len(ids))
		}
	}
	return ids
}

func (j *subflows) create(one *relayConnection, by path) {
	err := j.kernel.Create(one.Connection, one.ids[by.local], by.local, by.to)
	switch {
	case errors.Is(err, mptcp.Gone), errors.Is(err, mptcp.Reused):
		j.forget(one)
	case err != nil:
		j.warnings.Warn("cannot add a subflow to the relay on this path", "at", by.to, "local", by.local, "reason", err)
		j.mutex.Lock()
		defer j.mutex.Unlock()
		j.scheduleRetry(one, by)
	}
}

// scheduleRetry doubles the pause. It is short again for a subflow that lived long. The caller holds the mutex.
func (j *subflows) scheduleRetry(one *relayConnection, by path) {
	if from := one.paths[by]; from != nil && !from.retrying {
		from.retrying = true
		if !from.since.IsZero() && time.Since(from.since) > maxRetryDelay {
			from.pause = minRetryDelay
		}
		from.since = time.Time{}
		time.AfterFunc(from.pause, func() { j.retry(one, by) })
		from.pause = min(2*from.pause, maxRetryDelay)
	}
}

// destroy closes a subflow. It ignores one that has already ended. A subflow without a port yet is closed once it has one.
func (j *subflows) destroy(one *relayConnection, by path, port uint16) {
	if port != 0 {
		j.kernel.Destroy(one.Connection, mptcp.Subflow{Local: netip.AddrPortFrom(by.local, port), Remote: by.to})
	}
}

func (j *subflows) forget(one *relayConnection) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.live[one.Token] == one {
		delete(j.live, one.Token)
	}
}

// run replaces ended subflows until the context ends.
func (j *subflows) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := j.listen(ctx); err != nil {
			j.warnings.Warn("cannot watch subflows, so those that end are not replaced", "reason", err)
		}
		select {
		case <-time.After(minRetryDelay):
		case <-ctx.Done():
		}
	}
}

func (j *subflows) listen(ctx context.Context) error {
	events, err := j.kernel.Events(ctx)
	if err != nil {
		return err
	}
	err = j.reconcile() // events before the subscription
	for event := range events {
		j.handle(event)
	}
	return err
}

// reconcile reads the kernel's subflows, since events may be lost.
func (j *subflows) reconcile() error {
	j.mutex.Lock()
	before := maps.Clone(j.live) // later connections may be missing in the reading
	j.mutex.Unlock()
	connections, err := j.kernel.Subflows()
	if err != nil {
		return err
	}
	have := map[mptcp.Token]mptcp.Connection{}
	for _, c := range connections {
		have[c.Token] = c
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for token, one := range before {
		c, lives := have[token]
		switch {
		case j.live[token] != one:
			continue
		case !lives:
			delete(j.live, token)
			continue
		}
		ports := map[path]uint16{}
		for _, s := range c.Subflows {
			by := path{s.Local.Addr(), s.Remote}
			switch {
			case one.paths[by] != nil:
				ports[by] = s.Local.Port()
			case s.Established:
				go j.destroy(one, by, s.Local.Port())
			}
		}
		for by, from := range one.paths {
			port, is := ports[by]
			switch {
			case is:
				from.established(port)
			default:
				from.port = 0
				j.scheduleRetry(one, by)
			}
		}
	}
	return nil
}

func (j *subflows) handle(event mptcp.Event) {
	if event.Kind == 0 {
		if err := j.reconcile(); err != nil {
			j.warnings.Warn("lost events of the kernel's MPTCP and cannot read its subflows", "reason", err)
		}
		return
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	one := j.live[event.Token]
	if one == nil {
		return
	}
	by := path{event.Local.Addr(), event.Remote}
	from := one.paths[by]
	switch {
	case event.Kind == mptcp.ConnectionClosed:
		delete(j.live, event.Token)
	case event.Kind == mptcp.SubflowEstablished && from != nil:
		from.established(event.Local.Port())
	case event.Kind == mptcp.SubflowEstablished:
		go j.destroy(one, by, event.Local.Port())
	case event.Kind == mptcp.SubflowClosed && from != nil:
		from.port = 0
		j.scheduleRetry(one, by)
	}
}

// retry does nothing if the connection has ended or no longer wants the path.
func (j *subflows) retry(one *relayConnection, by path) {
	j.mutex.Lock()
	from := one.paths[by]
	lacks := j.live[one.Token] == one && from != nil && from.port == 0
	if from != nil {
		from.retrying = false
	}
	j.mutex.Unlock()
	if lacks {
		j.create(one, by)
	}
}
