package taking

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"bicast/mptcp"
	"bicast/relay/carry"
	"bicast/relay/seldom"
)

// A subflow that ended is made again after a while, that doubles where it ends again.
const (
	againSoon   = time.Second
	againSeldom = time.Minute
)

// joins makes further subflows of connections to relays, and those anew that end while the connection lives.
type joins struct {
	kernel  *mptcp.Handle
	trouble *seldom.Teller

	mutex  sync.Mutex
	onward map[netip.AddrPort][]netip.AddrPort // ports of others that lead to a relay, too
	live   map[mptcp.Token]*joined
}

// joined is a connection, and what its subflows are to be.
type joined struct {
	mptcp.Connection
	paths map[path]*source
}

type path struct {
	local netip.Addr
	to    netip.AddrPort
}

type source struct {
	id    uint8
	pause time.Duration
}

// lead has connections from now on have subflows by these, too.
func (j *joins) lead(relays []relay) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.onward = map[netip.AddrPort][]netip.AddrPort{}
	for _, each := range relays {
		for _, way := range each.onward {
			if !each.draining {
				j.onward[way.to] = append(j.onward[way.to], way.here)
			}
		}
	}
}

// join opens a subflow from each of these, to the relay and by others, that the connection does not begin with. The kernel goes
// on to call by a path that does not answer, for two minutes. False: it has no others, for it is none of MPTCP.
func (j *joins) join(end *carry.Secure, locals []netip.Addr, relay netip.AddrPort) bool {
	j.mutex.Lock()
	to := append([]netip.AddrPort{relay}, j.onward[relay]...)
	j.mutex.Unlock()
	if len(locals)*len(to) < 2 {
		return true
	}
	raw, err := end.NetConn().(syscall.Conn).SyscallConn()
	if err != nil {
		return true // it has ended
	}
	connection, err := mptcp.Own(raw)
	if err != nil {
		j.trouble.Warn("the relay is reached by one uplink alone", "relay", relay, "because", err)
		return false
	}
	began, _ := netip.ParseAddrPort(end.LocalAddr().String())
	one := &joined{connection, pathsOf(began.Addr(), locals, to)}
	j.mutex.Lock()
	j.live[connection.Token] = one
	j.mutex.Unlock()
	for by := range one.paths {
		if by != (path{began.Addr(), relay}) {
			j.create(one, by)
		}
	}
	return true
}

// pathsOf numbers our addresses: the one that a connection begins by has 0.
func pathsOf(began netip.Addr, locals []netip.Addr, to []netip.AddrPort) map[path]*source {
	paths := map[path]*source{}
	next := uint8(0)
	for _, local := range locals {
		id := uint8(0)
		if local != began {
			next++
			id = next
		}
		for _, each := range to {
			if each.Addr().Is4() == local.Is4() {
				paths[path{local, each}] = &source{id, againSoon}
			}
		}
	}
	return paths
}

func (j *joins) create(one *joined, by path) {
	err := j.kernel.Create(one.Connection, one.paths[by].id, by.local, by.to)
	switch {
	case errors.Is(err, mptcp.Gone), errors.Is(err, mptcp.Reused):
		j.forget(one)
	case err != nil:
		j.trouble.Warn("the relay is not reached by this way, too", "at", by.to, "local", by.local, "because", err)
	}
}

func (j *joins) forget(one *joined) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.live[one.Token] == one {
		delete(j.live, one.Token)
	}
}

// run makes anew what ends, until the context does.
func (j *joins) run(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := j.kernel.Events(ctx)
		if err != nil {
			j.trouble.Warn("subflows that end are not made again", "because", err)
		}
		for event := range events {
			j.heard(event)
		}
		select {
		case <-time.After(againSoon):
		case <-ctx.Done():
		}
	}
}

func (j *joins) heard(event mptcp.Event) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	one := j.live[event.Token]
	switch {
	case one == nil:
	case event.Kind == mptcp.ConnectionClosed:
		delete(j.live, event.Token)
	case event.Kind == mptcp.SubflowClosed:
		by := path{event.Local.Addr(), event.Remote}
		from := one.paths[by]
		if from == nil {
			return
		}
		time.AfterFunc(from.pause, func() { j.again(one, by) })
		from.pause = min(2*from.pause, againSeldom)
	}
}

// again is of a connection that lives.
func (j *joins) again(one *joined, by path) {
	j.mutex.Lock()
	lives := j.live[one.Token] == one
	j.mutex.Unlock()
	if lives {
		j.create(one, by)
	}
}
