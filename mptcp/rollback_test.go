// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bicast/mptcp"
)

// traces are what a failed attempt could leave behind: subflows of the connection in any state, addresses that it or
// the kernel's path manager knows.
type traces struct {
	subflows  int
	endpoints string
	addresses int
}

func (b *bench) traces() traces {
	b.t.Helper()
	c := b.connection()
	addresses, err := b.handle.AddressesOf(c)
	must(b.t, err)
	return traces{len(c.Subflows), b.client.Run("ip", "mptcp", "endpoint"), len(addresses)}
}

func TestFailedAddSubflowLeavesNoTraces(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		for name, c := range map[string]struct {
			local string
			spoil func(b *bench)
			kind  mptcp.Kind
		}{
			"not ours":    {"192.0.2.1", func(*bench) {}, mptcp.Refused},
			"anybody's":   {"0.0.0.0", func(*bench) {}, mptcp.Refused},
			"broadcast":   {"255.255.255.255", func(*bench) {}, mptcp.Refused},
			"multicast":   {"224.0.0.1", func(*bench) {}, mptcp.Refused},
			"IPv6":        {"::1", func(*bench) {}, mptcp.Refused},
			"unreachable": {fromLTE, func(b *bench) { b.client.Blacken("lte", "10.2.0.2") }, mptcp.NotEstablished},
			"refused":     {fromLTE, func(b *bench) { b.server.Run("ip", "mptcp", "limits", "set", "subflows", "0") }, mptcp.NotEstablished},
		} {
			t.Run(manager.String()+", "+name, func(t *testing.T) {
				b := newBench(t, manager)
				_, err := b.handle.RemoveSubflow(b.connection(), from(b.connection(), fromLTE)[0])
				must(t, err)
				before := b.traces()
				c.spoil(b)
				short, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				now := b.connection()
				_, err = b.handle.AddSubflow(short, now, netip.MustParseAddr(c.local), now.Remote())
				wantKind(t, err, c.kind)
				if c.kind == mptcp.NotEstablished && strings.Contains(err.Error(), "stays") {
					t.Errorf("it says that something stays: %v", err)
				}
				if after := b.traces(); after != before {
					t.Fatalf("left is %+v, expected what was before, %+v", after, before)
				}
				b.exchange(b.conn)
			})
		}
	}
}

// newClosedBench returns a connection over Wi-Fi under the kernel's path manager, with LTE as an endpoint without
// flags.
func newClosedBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, mptcp.KernelManager)
	_, err := b.handle.RemoveSubflow(b.connection(), from(b.connection(), fromLTE)[0])
	must(t, err)
	b.client.Run("ip", "mptcp", "endpoint", "add", fromLTE, "id", "7", "backup")
	return b
}

func TestAddSubflowActivatesAnEndpointWithoutFlags(t *testing.T) {
	b := newClosedBench(t)
	b.add(fromLTE)
	if opened := from(b.connection(), fromLTE); len(opened) != 1 || !opened[0].BackupByUs {
		t.Errorf("from LTE there is %+v, expected one backup subflow", opened)
	}
	if now := b.client.Run("ip", "mptcp", "endpoint"); !strings.Contains(now, fromLTE+" id 7 subflow backup dev lte") {
		t.Errorf("the endpoints are\n%s\nexpected the rest of LTE's kept", now)
	}
}

func TestFailedAddSubflowRestoresTheEndpoint(t *testing.T) {
	b := newClosedBench(t)
	before := b.traces()
	b.client.Blacken("lte", "10.2.0.2")
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	c := b.connection()
	_, err := b.handle.AddSubflow(short, c, netip.MustParseAddr(fromLTE), c.Remote())
	wantKind(t, err, mptcp.NotEstablished)
	if after := b.traces(); after != before {
		t.Fatalf("left is %+v, expected what was before, %+v", after, before)
	}
}

func TestAddSubflowRefusesAnExistingPath(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	refused := func(c mptcp.Connection, local, says string) {
		t.Helper()
		before := b.traces()
		_, err := b.handle.AddSubflow(b.soon(), c, netip.MustParseAddr(local), c.Remote())
		wantKind(t, err, mptcp.Refused)
		if !strings.Contains(err.Error(), says) {
			t.Errorf("it says %q, expected %q", err, says)
		}
		if after := b.traces(); after != before {
			t.Errorf("left is %+v, expected what was before, %+v", after, before)
		}
	}
	refused(b.connection(), fromLTE, "has this path already")
	refused(b.connection(), fromWifi, "has this path already")
	b.prefer(fromLTE, fromWifi, false) // Wi-Fi becomes an endpoint without flags, with a live subflow
	other := b.client.Dial(b.connection().Remote(), fromLTE)
	b.exchange(other)
	wifis := b.conn
	b.conn = other
	c := b.connection()
	b.conn = wifis
	refused(c, fromWifi, "an endpoint that opens nothing, and replacing it would close the live subflows from "+
		"there of 1 connection")
}
