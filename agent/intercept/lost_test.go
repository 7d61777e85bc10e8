// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/ratelog"
	"bicast/mptcp"
	"bicast/relay/proxy"
)

// told is a kernel with these subflows and without events.
type told struct {
	has     []mptcp.Connection
	created chan path
	closed  chan mptcp.Subflow
}

func (k *told) Create(_ mptcp.Connection, _ uint8, local netip.Addr, remote netip.AddrPort) error {
	k.created <- path{local, remote}
	return nil
}

func (k *told) Destroy(_ mptcp.Connection, s mptcp.Subflow) error {
	k.closed <- s
	return nil
}

func (k *told) Events(context.Context) (<-chan mptcp.Event, error) {
	events := make(chan mptcp.Event, 1)
	events <- mptcp.Event{} // some were lost
	close(events)
	return events, nil
}

func (k *told) Subflows() ([]mptcp.Connection, error) { return k.has, nil }

var (
	wifi, lte = netip.MustParseAddr("10.97.1.2"), netip.MustParseAddr("10.97.2.2")
	tokyo     = netip.MustParseAddrPort("10.9.9.9:443")
	elsewhere = netip.MustParseAddrPort("10.9.9.8:443")
)

// carried returns a connection with a subflow on each uplink, and the subflows that contain it.
func carried(kernel *told, token mptcp.Token) (*subflows, *relayConnection) {
	locals := &proxy.Locals{}
	locals.Set([]netip.Addr{wifi, lte})
	one := &relayConnection{mptcp.Connection{Token: token}, tokyo, locals, addressIDs(wifi, []netip.Addr{wifi, lte}), map[path]*subflow{
		{wifi, tokyo}: {port: 1001, pause: time.Millisecond}, {lte, tokyo}: {port: 1002, pause: time.Millisecond},
	}}
	quiet := &ratelog.Logger{Log: slog.New(slog.DiscardHandler)}
	return &subflows{kernel: kernel, warnings: quiet, live: map[mptcp.Token]*relayConnection{token: one}}, one
}

func newTold(subflows ...mptcp.Subflow) *told {
	return &told{
		has: []mptcp.Connection{{Token: 7, Subflows: subflows}}, created: make(chan path, 9), closed: make(chan mptcp.Subflow, 9),
	}
}

func by(local netip.Addr, port uint16, remote netip.AddrPort) mptcp.Subflow {
	return mptcp.Subflow{Local: netip.AddrPortFrom(local, port), Remote: remote, Established: true}
}

func TestASubflowWithALostEndEventIsReplaced(t *testing.T) {
	kernel := newTold(by(wifi, 1001, tokyo))
	j, one := carried(kernel, 7)
	if err := j.listen(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case made := <-kernel.created:
		if made != (path{lte, tokyo}) {
			t.Fatalf("%v is made, expected the one by LTE", made)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is not made again")
	}
	if len(kernel.created) != 0 || one.paths[path{wifi, tokyo}].port != 1001 {
		t.Fatal("an established subflow was changed")
	}
}

func TestReconcileAdoptsSubflowsAndClosesSurplusOnes(t *testing.T) {
	kernel := newTold(by(wifi, 1001, tokyo), by(lte, 1003, tokyo), by(wifi, 1004, elsewhere))
	j, one := carried(kernel, 7)
	if err := j.reconcile(); err != nil {
		t.Fatal(err)
	}
	if port := one.paths[path{lte, tokyo}].port; port != 1003 {
		t.Fatalf("the subflow over LTE has port %d, expected 1003", port)
	}
	if closed := <-kernel.closed; closed.Local.Port() != 1004 {
		t.Fatalf("%v is closed, expected the one that leads elsewhere", closed)
	}
}

func TestAConnectionWithALostEndEventIsForgotten(t *testing.T) {
	kernel := newTold()
	kernel.has = nil
	j, _ := carried(kernel, 7)
	if err := j.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(j.live) != 0 {
		t.Fatalf("%v are still known, expected none", j.live)
	}
}

func TestALongLivedSubflowIsRetriedSoon(t *testing.T) {
	j, one := carried(newTold(), 7)
	lasting, flapping := one.paths[path{wifi, tokyo}], one.paths[path{lte, tokyo}]
	lasting.pause, lasting.since = maxRetryDelay, time.Now().Add(-2*maxRetryDelay)
	flapping.pause, flapping.since = maxRetryDelay, time.Now().Add(-time.Second)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.scheduleRetry(one, path{wifi, tokyo})
	j.scheduleRetry(one, path{lte, tokyo})
	if lasting.pause != 2*minRetryDelay || flapping.pause != maxRetryDelay {
		t.Fatalf("next pauses of %v and %v, expected %v after a minute and %v after a second", lasting.pause, flapping.pause,
			2*minRetryDelay, maxRetryDelay)
	}
}
