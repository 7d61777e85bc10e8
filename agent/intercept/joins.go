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
	againSoon   = time.Second
	againSeldom = time.Minute
)

// kernel is the part of *mptcp.Handle that joins needs.
type kernel interface {
	Create(c mptcp.Connection, id uint8, local netip.Addr, remote netip.AddrPort) error
	Destroy(c mptcp.Connection, s mptcp.Subflow) error
	Events(ctx context.Context) (<-chan mptcp.Event, error)
	Subflows() ([]mptcp.Connection, error)
}

// joins adds subflows to connections to relays, and replaces subflows that end while the connection lives.
type joins struct {
	kernel  kernel
	trouble *ratelog.Logger

	mutex  sync.Mutex
	onward map[netip.AddrPort][]netip.AddrPort // ports of other relays that lead to a relay too
	live   map[mptcp.Token]*joined
}

// joined is a connection with its wanted subflows.
type joined struct {
	mptcp.Connection
	relay  netip.AddrPort
	locals *proxy.Locals
	ids    map[netip.Addr]uint8 // of our addresses
	paths  map[path]*source
}

type path struct {
	local netip.Addr
	to    netip.AddrPort
}

type source struct {
	port  uint16    // local port; 0: not established yet
	stood time.Time // established since; zero: never
	pause time.Duration
	waits bool // for its retry
}

func (s *source) stands(port uint16) {
	if s.port != port {
		s.port, s.stood = port, time.Now()
	}
}

// lead sets the paths via other relays, and adds and removes subflows of live connections accordingly. New subflows leave
// by the uplinks that are the best now.
func (j *joins) lead(relays []relay) {
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
		j.settle(one)
	}
}

// join opens a subflow on each path except the first one's. The kernel retries a path without an answer for two minutes.
// It returns false if the connection is plain TCP and so cannot have subflows.
func (j *joins) join(end net.Conn, locals *proxy.Locals, relay netip.AddrPort) bool {
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
		j.trouble.Warn("connections to the relay use one uplink only", "relay", relay, "reason", err)
		return false
	}
	began, _ := netip.ParseAddrPort(end.LocalAddr().String())
	one := &joined{connection, relay, locals, numbered(began.Addr(), from), map[path]*source{
		{began.Addr(), relay}: {port: began.Port(), stood: time.Now(), pause: againSoon},
	}}
	j.mutex.Lock()
	j.live[connection.Token] = one
	j.mutex.Unlock()
	j.settle(one)
	return true
}

func (j *joins) paths(from []netip.Addr, relay netip.AddrPort) int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return len(j.wanted(from, relay))
}

// wanted returns the paths by each uplink to the relay, and those via other relays from the best uplink only. At the
// relay a subflow of the latter has the other relay's address, so the relay cannot know its uplink and set its backup
// flag. The caller holds the mutex.
func (j *joins) wanted(from []netip.Addr, relay netip.AddrPort) (all []path) {
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

// settle opens missing subflows of a connection and closes those that are no longer wanted.
func (j *joins) settle(one *joined) {
	j.mutex.Lock()
	wanted := j.wanted(one.locals.Of(one.relay.Addr()), one.relay)
	var lacks []path
	surplus := map[path]*source{}
	for by, from := range one.paths {
		if !slices.Contains(wanted, by) && by.to != one.relay {
			surplus[by] = from
			delete(one.paths, by)
		}
	}
	for _, by := range wanted {
		if one.paths[by] == nil {
			one.paths[by] = &source{pause: againSoon}
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

// numbered returns the ids of our addresses. The address of the first subflow has 0.
func numbered(began netip.Addr, locals []netip.Addr) map[netip.Addr]uint8 {
	ids := map[netip.Addr]uint8{began: 0}
	for _, local := range locals {
		if local != began {
			ids[local] = uint8(len(ids))
		}
	}
	return ids
}

func (j *joins) create(one *joined, by path) {
	err := j.kernel.Create(one.Connection, one.ids[by.local], by.local, by.to)
	switch {
	case errors.Is(err, mptcp.Gone), errors.Is(err, mptcp.Reused):
		j.forget(one)
	case err != nil:
		j.trouble.Warn("cannot add a subflow to the relay on this path", "at", by.to, "local", by.local, "reason", err)
		j.mutex.Lock()
		defer j.mutex.Unlock()
		j.later(one, by)
	}
}

// later schedules a retry. The pause is short again for a subflow that lived long. The caller holds the mutex.
func (j *joins) later(one *joined, by path) {
	if from := one.paths[by]; from != nil && !from.waits {
		from.waits = true
		if !from.stood.IsZero() && time.Since(from.stood) > againSeldom {
			from.pause = againSoon
		}
		from.stood = time.Time{}
		time.AfterFunc(from.pause, func() { j.again(one, by) })
		from.pause = min(2*from.pause, againSeldom)
	}
}

// destroy closes a subflow. It ignores one that has already ended. A subflow without a port yet is closed once it has one.
func (j *joins) destroy(one *joined, by path, port uint16) {
	if port != 0 {
		j.kernel.Destroy(one.Connection, mptcp.Subflow{Local: netip.AddrPortFrom(by.local, port), Remote: by.to})
	}
}

func (j *joins) forget(one *joined) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.live[one.Token] == one {
		delete(j.live, one.Token)
	}
}

// run replaces ended subflows until the context ends.
func (j *joins) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := j.listen(ctx); err != nil {
			j.trouble.Warn("cannot watch subflows, so those that end are not replaced", "reason", err)
		}
		select {
		case <-time.After(againSoon):
		case <-ctx.Done():
		}
	}
}

func (j *joins) listen(ctx context.Context) error {
	events, err := j.kernel.Events(ctx)
	if err != nil {
		return err
	}
	err = j.reconcile() // events before the subscription
	for event := range events {
		j.heard(event)
	}
	return err
}

// reconcile reads the kernel's subflows, since events may be lost.
func (j *joins) reconcile() error {
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
				from.stands(port)
			default:
				from.port = 0
				j.later(one, by)
			}
		}
	}
	return nil
}

func (j *joins) heard(event mptcp.Event) {
	if event.Kind == 0 {
		if err := j.reconcile(); err != nil {
			j.trouble.Warn("lost events of the kernel's MPTCP and cannot read its subflows", "reason", err)
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
		from.stands(event.Local.Port())
	case event.Kind == mptcp.SubflowEstablished:
		go j.destroy(one, by, event.Local.Port())
	case event.Kind == mptcp.SubflowClosed && from != nil:
		from.port = 0
		j.later(one, by)
	}
}

// again retries a path if the connection lives and still wants the path.
func (j *joins) again(one *joined, by path) {
	j.mutex.Lock()
	from := one.paths[by]
	lacks := j.live[one.Token] == one && from != nil && from.port == 0
	if from != nil {
		from.waits = false
	}
	j.mutex.Unlock()
	if lacks {
		j.create(one, by)
	}
}
