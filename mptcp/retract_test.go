package mptcp_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bicast/mptcp"
)

// What an attempt could leave behind: subflows of the connection that live or are being opened, addresses that it or the
// kernel's path manager knows.
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

func TestAnAttemptThatFailsLeavesNothing(t *testing.T) {
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
