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

	mutex sync.Mutex
	live  map[mptcp.Token]*joined
}

// joined is a connection, which has subflows from these addresses.
type joined struct {
	mptcp.Connection
	relay netip.AddrPort
	from  map[netip.Addr]*source
}

type source struct {
	id    uint8
	pause time.Duration
}

// join opens a subflow from each of these that the connection does not begin with. The kernel goes on to call by a path that
// does not answer, for two minutes.
func (j *joins) join(end *carry.Secure, locals []netip.Addr, relay netip.AddrPort) {
	if len(locals) < 2 {
		return
	}
	raw, err := end.NetConn().(syscall.Conn).SyscallConn()
	if err != nil {
		return // it has ended
	}
	connection, err := mptcp.Own(raw)
	if err != nil {
		j.trouble.Warn("the relay is reached by one uplink alone", "relay", relay, "because", err)
		return
	}
	began, _ := netip.ParseAddrPort(end.LocalAddr().String())
	one := &joined{connection, relay, map[netip.Addr]*source{began.Addr(): {pause: againSoon}}}
	for _, local := range locals {
		if one.from[local] == nil {
			one.from[local] = &source{uint8(len(one.from)), againSoon} // the first subflow has 0
		}
	}
	j.mutex.Lock()
	j.live[connection.Token] = one
	j.mutex.Unlock()
	for local := range one.from {
		if local != began.Addr() {
			j.create(one, local)
		}
	}
}

func (j *joins) create(one *joined, local netip.Addr) {
	err := j.kernel.Create(one.Connection, one.from[local].id, local, one.relay)
	switch {
	case errors.Is(err, mptcp.Gone), errors.Is(err, mptcp.Reused):
		j.forget(one)
	case err != nil:
		j.trouble.Warn("the relay is not reached by this address", "relay", one.relay, "local", local, "because", err)
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
		from := one.from[event.Local.Addr()]
		if from == nil {
			return
		}
		time.AfterFunc(from.pause, func() { j.again(event.Token, one, event.Local.Addr()) })
		from.pause = min(2*from.pause, againSeldom)
	}
}

// again is of a connection that lives.
func (j *joins) again(token mptcp.Token, one *joined, local netip.Addr) {
	j.mutex.Lock()
	lives := j.live[token] == one
	j.mutex.Unlock()
	if lives {
		j.create(one, local)
	}
}
