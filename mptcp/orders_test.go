// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bicast/internal/lab"
	"bicast/mptcp"
)

func TestConnectionIsConsistentAtBothEnds(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	b.exchange(b.conn)
	ours, theirs := b.connection(), first(t, b.far)
	if len(ours.Subflows) != 2 || len(theirs.Subflows) != 2 {
		t.Fatalf("%d subflows here and %d there, want 2", len(ours.Subflows), len(theirs.Subflows))
	}
	for i, s := range ours.Subflows {
		o := theirs.Subflows[i]
		if s.Local != o.Remote || s.Remote != o.Local || s.LocalID != o.RemoteID || s.RemoteID != o.LocalID {
			t.Errorf("%v (%d, %d) here is %v (%d, %d) there", s, s.LocalID, s.RemoteID, o, o.LocalID, o.RemoteID)
		}
	}
	if ours.Serves || !theirs.Serves {
		t.Errorf("serves: client %v, server %v", ours.Serves, theirs.Serves)
	}
	if ours.BytesSent != 2*megabyte || ours.BytesReceived != 2*megabyte {
		t.Errorf("%d bytes sent and %d received, want two megabytes each", ours.BytesSent, ours.BytesReceived)
	}
	s := ours.Subflows[0]
	if !s.Established || s.SRTT <= 0 || s.MinRTT <= 0 || s.CwndSegments == 0 || s.MSSBytes == 0 || s.SegmentsSent == 0 {
		t.Errorf("something was not read: %+v", s)
	}
}

func TestFallbackIsListedAsPlainTCP(t *testing.T) {
	client, server := lab.Two(t)
	handle, far := open(t, client), open(t, server)
	must(t, lab.Exchange(client.Dial(server.TCPEcho(lab.Service+":0"), ""), 1000))
	for _, h := range []*mptcp.Handle{handle, far} {
		connections, err := h.Connections()
		must(t, err)
		if len(connections) != 1 || connections[0].Token != 0 || len(connections[0].Subflows) != 1 {
			t.Fatalf("got %+v, want one plain connection", connections)
		}
		if connections[0].Serves != (h == far) {
			t.Errorf("serves is %v at the server: %v", connections[0].Serves, h == far)
		}
		_, err = h.Prefer(connections[0], connections[0].Subflows, nil, false)
		wantKind(t, err, mptcp.NoPath)
	}
}

func TestSwitchWorksForEveryAddressFamily(t *testing.T) {
	for name, way := range map[string]struct{ listens, to, wifi, lte string }{
		"IPv4":                    {lab.Service, lab.Service, fromWifi, fromLTE},
		"IPv4 on an IPv6 socket":  {"::", lab.Service, fromWifi, fromLTE},
		"IPv6":                    {lab.Service6, lab.Service6, "fd01::1", "fd02::1"},
		"IPv6 on a double socket": {"::", lab.Service6, "fd01::1", "fd02::1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t}
			b.client, b.server = lab.Two(t)
			b.server.Sysctl("mptcp/pm_type", "1")
			b.handle, b.far = open(t, b.client), open(t, b.server)
			_, err := b.far.Events(b.soon())
			must(t, err)
			listens := b.server.Echo(netip.AddrPortFrom(netip.MustParseAddr(way.listens), 0).String())
			b.conn = b.client.Dial(netip.AddrPortFrom(netip.MustParseAddr(way.to), listens.Port()), way.wifi)
			b.exchange(b.conn)
			b.add(way.lte)
			b.exchange(b.conn)
			// The server switches: its sockets come from a listener.
			c := first(t, b.far)
			_, err = b.far.Prefer(c, c.Subflows[1:], c.Subflows[:1], false)
			must(t, err)
			now := first(t, b.far)
			if !now.Subflows[0].BackupByUs || now.Subflows[1].Backup() {
				t.Errorf("not switched: %+v", now.Subflows)
			}
			_, err = b.far.RemoveSubflow(now, now.Subflows[0])
			must(t, err)
			if left := first(t, b.far).Subflows; len(left) != 1 || left[0].Remote.Addr().String() != way.lte {
				t.Errorf("left is %v", left)
			}
			b.exchange(b.conn)
		})
	}
}

func TestRemoveSubflowClosesItAtBothEnds(t *testing.T) {
	for _, manager := range []mptcp.PathManager{mptcp.UserspaceManager, mptcp.KernelManager} {
		t.Run(manager.String(), func(t *testing.T) {
			b := newBench(t, manager)
			c := b.connection()
			_, err := b.handle.RemoveSubflow(c, from(c, fromWifi)[0])
			must(t, err)
			if left := b.connection().Subflows; len(left) != 1 || left[0].Local.Addr().String() != fromLTE {
				t.Errorf("left is %v", left)
			}
			b.exchange(b.conn)
			c = b.connection()
			_, err = b.handle.RemoveSubflow(c, c.Subflows[0])
			wantKind(t, err, mptcp.NoPath)
			b.add(fromWifi)
			b.exchange(b.conn)
		})
	}
}

func TestRemoveSubflowRefusesIfAnotherConnectionNeedsIt(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	must(t, b.handle.SetLimits(mptcp.Limits{}))
	alone := b.client.Dial(b.connection().Remote(), fromWifi)
	b.exchange(alone)
	c := b.connection()
	_, err := b.handle.RemoveSubflow(c, from(c, fromWifi)[0])
	wantKind(t, err, mptcp.NoPath)
	if len(from(b.connection(), fromWifi)) != 1 {
		t.Error("it was removed all the same")
	}
	b.exchange(alone)
}

func TestAddSubflowReturnsTheReasonOfAFailure(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	c := b.connection()
	closed := netip.MustParseAddrPort("10.2.0.2:9")
	_, err := b.handle.AddSubflow(b.soon(), c, netip.MustParseAddr(fromLTE), closed)
	wantKind(t, err, mptcp.NotEstablished)
	if !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("it does not say that the port is closed: %v", err)
	}
	_, err = b.handle.AddSubflow(b.soon(), c, netip.MustParseAddr("192.0.2.1"), c.Remote())
	wantKind(t, err, mptcp.Refused)
	b.client.Blacken("lte", "10.2.0.2")
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = b.handle.AddSubflow(short, c, netip.MustParseAddr(fromLTE), netip.MustParseAddrPort("10.2.0.2:10"))
	wantKind(t, err, mptcp.NotEstablished)
}

func TestAddSubflowNamesTheKernelsLimit(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	must(t, b.handle.SetLimits(mptcp.Limits{Extra: 1}))
	c := b.connection()
	_, err := b.handle.AddSubflow(b.soon(), c, netip.MustParseAddr("10.1.0.77"), c.Remote())
	wantKind(t, err, mptcp.LimitReached)
}

func TestOrdersToTheWrongPathManagerAreExplained(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	c := b.connection()
	wantKind(t, b.handle.SetBackup(c, c.Subflows[0], true), mptcp.WrongManager)
	wantKind(t, b.handle.Destroy(c, c.Subflows[0]), mptcp.WrongManager)
	wantKind(t, b.handle.Remove(c, 1), mptcp.WrongManager)
	wantKind(t, b.handle.Create(c, 9, netip.MustParseAddr(fromLTE), c.Remote()), mptcp.WrongManager)
}

func TestPreferFailsIfServerPathsShareAnAddress(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	c := first(t, b.far)
	_, err := b.far.Prefer(c, c.Subflows[1:], c.Subflows[:1], false)
	wantKind(t, err, mptcp.Indistinguishable)
}

func TestOrdersReportEndedConnections(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	c := b.connection()
	must(t, b.handle.Destroy(c, from(c, fromLTE)[0]))
	wantKind(t, b.handle.SetBackup(c, from(c, fromLTE)[0], true), mptcp.Gone)
	wantKind(t, b.handle.Destroy(c, from(c, fromLTE)[0]), mptcp.Gone)
	other := c
	other.Cookie++ // as when the kernel has reused the token
	wantKind(t, b.handle.SetBackup(other, c.Subflows[0], true), mptcp.Reused)
	closed := b.awaitEvent(mptcp.ConnectionClosed, func() { must(t, b.conn.Close()) })
	if closed.Token != c.Token {
		t.Errorf("%v ended, want %v", closed.Token, c.Token)
	}
	// The close event comes with close(); the token lives until the other end has answered.
	var err error
	for end := time.Now().Add(patience); err == nil && time.Now().Before(end); {
		err = b.handle.SetBackup(c, c.Subflows[0], true)
	}
	wantKind(t, err, mptcp.Gone)
}

// awaitEvent returns the first event of a kind after do.
func (b *bench) awaitEvent(kind mptcp.EventKind, do func()) mptcp.Event {
	b.t.Helper()
	events, err := b.handle.Events(b.soon())
	must(b.t, err)
	do()
	for event := range events {
		if event.Kind == kind {
			return event
		}
	}
	b.t.Fatalf("no event %v came", kind)
	return mptcp.Event{}
}

func TestEventsIncludeThePeersSwitch(t *testing.T) {
	b := newBenchBetween(t, mptcp.UserspaceManager, mptcp.UserspaceManager)
	theirs := first(t, b.far)
	event := b.awaitEvent(mptcp.PriorityChanged, func() { must(t, b.far.SetBackup(theirs, theirs.Subflows[1], true)) })
	if event.Token != b.connection().Token || event.Local.Addr().String() != fromLTE || !event.Backup {
		t.Errorf("got %+v", event)
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	client, _ := lab.Two(t)
	ctx, cancel := context.WithCancel(context.Background())
	events, err := open(t, client).Events(ctx)
	must(t, err)
	cancel()
	for range events {
		t.Error("an event in a namespace without connections")
	}
}

func TestOpenNamesAMissingNamespace(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(plain, nil, 0o600))
	for _, path := range []string{plain + "er", plain, t.TempDir(), "/proc/self/ns/mnt"} {
		_, err := mptcp.Open(path)
		wantKind(t, err, mptcp.NoNamespace)
	}
}

func TestOpenReportsMissingPrivileges(t *testing.T) {
	closed := t.TempDir()
	must(t, os.Chmod(closed, 0o700))
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the unprivileged thread ends with this goroutine
		const nobody = 65534
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			refused <- err
			return
		}
		_, err := mptcp.Open(filepath.Join(closed, "net"))
		refused <- err
	}()
	err := <-refused
	wantKind(t, err, mptcp.NoRight)
	if !strings.Contains(err.Error(), "cannot be opened (the kernel said: ") || !strings.Contains(err.Error(), "as root") {
		t.Errorf("it says %q, expected that it cannot be opened, and that root can", err)
	}
}

func TestProcessesFindsTheOwnerOfAConnection(t *testing.T) {
	b := newBench(t, mptcp.UserspaceManager)
	holders, err := mptcp.Processes()
	must(t, err)
	if found := holders[b.connection().Inode]; len(found) != 1 || found[0].Name != "mptcp.test" {
		t.Errorf("got %v, want this test", found)
	}
}
