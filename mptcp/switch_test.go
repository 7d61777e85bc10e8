// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"bicast/internal/lab"
	"bicast/mptcp"
)

func (b *bench) prefer(wanted, other string, hard bool) mptcp.Change {
	b.t.Helper()
	c := b.connection()
	change, err := b.handle.Prefer(c, from(c, wanted), from(c, other), hard)
	must(b.t, err)
	return change
}

func TestSoftSwitchMovesTrafficAndNotifiesThePeer(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		t.Run(manager.String(), func(t *testing.T) {
			b := newBench(t, manager)
			b.prefer(fromLTE, fromWifi, false)
			if wifi, lte := b.moved(); wifi != 0 || lte < megabyte {
				t.Errorf("after switching to LTE, Wi-Fi carried %d bytes and LTE %d", wifi, lte)
			}
			told := b.client.Counter("MPPrioTx")
			b.prefer(fromWifi, fromLTE, false)
			if wifi, lte := b.moved(); wifi < megabyte || lte != 0 {
				t.Errorf("after switching back, Wi-Fi carried %d bytes and LTE %d", wifi, lte)
			}
			if got := b.client.Counter("MPPrioTx") - told; got != 2 {
				t.Errorf("switching back sent %d MP_PRIO, want one for each path", got)
			}
			if sent, received := b.client.Counter("MPPrioTx"), b.server.Counter("MPPrioRx"); sent != received {
				t.Errorf("%d MP_PRIO were sent and %d received", sent, received)
			}
			if peers := first(t, b.far); !peers.Subflows[slices.IndexFunc(peers.Subflows, func(s mptcp.Subflow) bool {
				return s.Remote.Addr().String() == fromLTE
			})].BackupByPeer {
				t.Errorf("the server does not know that LTE is backup: %+v", peers.Subflows)
			}
		})
	}
}

func TestRepeatedSwitchSendsNoOrders(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	b.prefer(fromLTE, fromWifi, false)
	told := b.client.Counter("MPPrioTx")
	if change := b.prefer(fromLTE, fromWifi, false); b.client.Counter("MPPrioTx") != told {
		t.Errorf("the switch repeats the change: %q", change.Did)
	}
}

func TestHardSwitchRetransmitsDataOfADeadPath(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		t.Run(manager.String(), func(t *testing.T) {
			b := newBench(t, manager)
			b.prefer(fromWifi, fromLTE, false)
			b.client.Blacken("wifi", "10.1.0.2")
			b.server.Blacken("wifi", "10.1.0.1")
			must(t, b.conn.SetDeadline(time.Now().Add(patience)))
			arrived := make(chan error, 1)
			go func() { arrived <- lab.Exchange(b.conn, megabyte) }()
			b.awaitInFlight(fromWifi)
			change := b.prefer(fromLTE, fromWifi, true)
			must(t, <-arrived)
			if established := slices.DeleteFunc(from(b.connection(), fromWifi), func(s mptcp.Subflow) bool { return !s.Established }); len(established) != 0 {
				t.Errorf("the dead subflow is still there: %v; done was %q", established, change.Did)
			}
			if wifi, lte := b.moved(); wifi != 0 || lte < megabyte {
				t.Errorf("after the hard switch Wi-Fi carried %d bytes and LTE %d", wifi, lte)
			}
		})
	}
}

func TestHardSwitchToAMissingPathClosesNothing(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		t.Run(manager.String(), func(t *testing.T) {
			b := newBench(t, manager)
			before := b.connection()
			_, err := b.handle.RemoveSubflow(before, from(before, fromLTE)[0])
			must(t, err)
			_, err = b.handle.Prefer(before, from(before, fromLTE), from(before, fromWifi), true)
			wantKind(t, err, mptcp.NoPath)
			if left := from(b.connection(), fromWifi); len(left) != 1 || left[0].Backup() {
				t.Errorf("the only path is %v", left)
			}
			b.exchange(b.conn)
		})
	}
}

func (b *bench) awaitInFlight(local string) {
	b.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if s := from(b.connection(), local); len(s) > 0 && s[0].InFlightSegments > 0 {
			return
		}
	}
	b.t.Fatalf("nothing is in flight from %s", local)
}

func TestKernelManagerSwitchReportsOtherConnections(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	b.exchange(b.client.Dial(b.connection().Remote(), fromWifi))
	change := b.prefer(fromLTE, fromWifi, false)
	said := change.Did[len(change.Did)-1]
	if change.Connections != 2 || !strings.Contains(said, "every connection of the namespace from 10.2.0.1 or 10.1.0.1, 2") {
		t.Errorf("the switch reached %d connections and answered %q", change.Connections, said)
	}
}

func TestKernelManagerHardSwitchSparesFallbackConnections(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	fallen := b.client.Dial(b.server.TCPEcho(lab.Service+":0"), fromWifi)
	b.exchange(fallen)
	b.prefer(fromLTE, fromWifi, true)
	b.exchange(fallen)
}

func TestHardSwitchKeepsTheOnlyPathOfAConnection(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	both := b.conn
	must(t, b.handle.SetLimits(mptcp.Limits{Extra: 0}))
	alone := b.client.Dial(b.connection().Remote(), fromWifi)
	b.exchange(alone)
	must(t, b.handle.SetLimits(mptcp.Limits{Extra: 8}))
	if b.conn = alone; len(b.connection().Subflows) != 1 {
		t.Fatalf("it is not alone: %v", b.connection().Subflows)
	}
	b.conn = both
	must(t, b.far.SetLimits(mptcp.Limits{Extra: 0})) // the peer may refuse the new subflow
	change := b.prefer(fromLTE, fromWifi, true)
	if !strings.Contains(strings.Join(change.Did, "; "), "10.1.0.1 is not closed: 1 connection there had no other path") {
		t.Errorf("done was %q", change.Did)
	}
	if wifi, lte := b.moved(); wifi != 0 || lte < megabyte {
		t.Errorf("the other one was not moved: Wi-Fi carried %d bytes and LTE %d", wifi, lte)
	}
	b.exchange(alone)
}

func TestHardSwitchIgnoresUserspaceManagedConnections(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	both := b.conn
	b.client.Sysctl("mptcp/pm_type", "1")
	alone := b.client.Dial(b.connection().Remote(), fromWifi)
	b.exchange(alone)
	b.conn = both
	change := b.prefer(fromLTE, fromWifi, true)
	if strings.Contains(strings.Join(change.Did, "; "), "not closed") || change.Connections != 1 {
		t.Errorf("%d connections, and done was %q", change.Connections, change.Did)
	}
	b.exchange(alone)
}

// heldByPeer returns our connection once the peer has flagged the path from one of our addresses.
func (b *bench) heldByPeer(local string) mptcp.Connection {
	b.t.Helper()
	theirs := first(b.t, b.far)
	for _, s := range theirs.Subflows {
		if s.Remote.Addr().String() == local {
			must(b.t, b.far.SetBackup(theirs, s, true))
		}
	}
	b.exchange(b.conn)
	return b.connection()
}

func TestSwitchReportsAPathThatThePeerKeepsBackup(t *testing.T) {
	b := newBenchBetween(t, mptcp.UserspaceManager, mptcp.UserspaceManager)
	c := b.heldByPeer(fromLTE)
	_, err := b.handle.Prefer(c, from(c, fromLTE), from(c, fromWifi), false)
	wantKind(t, err, mptcp.HeldByPeer)
	if now := from(b.connection(), fromWifi)[0]; now.Backup() {
		t.Errorf("Wi-Fi was flagged all the same: now both are backup, and so neither is")
	}
	// The last path carries data all the same.
	b.prefer(fromLTE, fromWifi, true)
	if wifi, lte := b.moved(); wifi != 0 || lte < megabyte {
		t.Errorf("after the hard switch Wi-Fi carried %d bytes and LTE %d", wifi, lte)
	}
}

func TestEndpointSwitchRefusesAPathThatThePeerKeepsBackup(t *testing.T) {
	b := newBenchBetween(t, mptcp.KernelManager, mptcp.UserspaceManager)
	c := b.heldByPeer(fromLTE)
	change, err := b.handle.Prefer(c, from(c, fromLTE), from(c, fromWifi), false)
	wantKind(t, err, mptcp.HeldByPeer)
	if now := from(b.connection(), fromWifi)[0]; now.Backup() || len(change.Did) > 0 {
		t.Errorf("Wi-Fi was flagged all the same (%q): now both are backup, and so neither is", change.Did)
	}
}

func TestPreferAllIgnoresEndedConnections(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.KernelManager, mptcp.UserspaceManager} {
		b := newBench(t, manager)
		lives := b.connection()
		short := b.client.Dial(lives.Remote(), fromWifi)
		b.exchange(short)
		b.conn = short
		ended := b.connection()
		orders := []mptcp.SubflowPreference{
			{Connection: lives, Wanted: from(lives, fromLTE), Others: from(lives, fromWifi)},
			{Connection: ended, Wanted: from(ended, fromWifi)},
		}
		must(t, short.Close())
		for _, err := b.handle.Reread(ended); !errors.Is(err, mptcp.Gone); _, err = b.handle.Reread(ended) {
			must(t, err)
		}
		_, err := b.handle.PreferAll(orders, false)
		must(t, err)
		if now, err := b.handle.Reread(lives); err != nil || from(now, fromLTE)[0].Backup() || !from(now, fromWifi)[0].Backup() {
			t.Errorf("%v, %v: expected LTE active alone", now.Subflows, err)
		}
	}
}
