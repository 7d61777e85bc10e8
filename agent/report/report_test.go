// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"bicast/internal/lab"
	"bicast/mptcp"
)

func subflow(local, remote string) mptcp.Subflow {
	return mptcp.Subflow{
		Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote), Established: true,
		SRTT: 20 * time.Millisecond, SinceAck: 3 * time.Second, SinceData: time.Second,
	}
}

func reader(connections ...mptcp.Connection) *Reader {
	now := time.Hour
	return &Reader{
		Connections: func() ([]mptcp.Connection, error) { return connections, nil },
		Links: func() ([]Link, error) {
			return []Link{{Name: "lo", Loopback: true}, {Name: "wlan0", Up: true, BytesSent: 5}}, nil
		},
		Monotonic: func() time.Duration { now += 1250 * time.Millisecond; return now },
	}
}

func TestReadConvertsUnits(t *testing.T) {
	r := reader(mptcp.Connection{Token: 7, Serves: true, Subflows: []mptcp.Subflow{
		subflow("10.0.1.7:40000", "192.0.2.1:443"), {Local: netip.MustParseAddrPort("10.0.2.7:40001")}, // handshake not complete
	}})
	report, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Connections) != 1 || len(report.Connections[0].Subflows) != 1 {
		t.Fatalf("%v, expected one connection with its one established subflow", report.Connections)
	}
	got := report.Connections[0].Subflows[0]
	if got.LocalAddress != "10.0.1.7" || got.RemotePort != 443 || got.SrttUs != 20_000 || got.SinceAckMs != 3000 {
		t.Fatalf("%v", got)
	}
	if len(report.Interfaces) != 1 || report.Interfaces[0].Name != "wlan0" {
		t.Fatalf("%v, expected wlan0 alone", report.Interfaces)
	}
	if report.Cost.RssBytes == 0 || report.Cost.CpuUs == 0 {
		t.Fatalf("%v, expected what this process costs", report.Cost)
	}
	if again, err := r.Read(); err != nil || again.IntervalMs != 1250 {
		t.Fatalf("%d ms, %v, expected 1250 ms since the last reading", again.IntervalMs, err)
	}
}

func TestReadLeavesOutTheLoopback(t *testing.T) {
	r := reader(
		mptcp.Connection{Subflows: []mptcp.Subflow{subflow("127.0.0.1:1", "127.0.0.1:2")}},
		mptcp.Connection{Subflows: []mptcp.Subflow{subflow("[::1]:1", "[::1]:2")}},
	)
	report, err := r.Read()
	if err != nil || len(report.Connections) != 0 || report.ConnectionsLeftOut != 0 {
		t.Fatalf("%v, %v, expected none", report.Connections, err)
	}
}

func TestFittingLeavesOutSilentConnections(t *testing.T) {
	var connections []mptcp.Connection
	for i := range 100 {
		s := subflow("10.0.1.7:40000", "192.0.2.1:443")
		s.SinceAck, s.SinceData = time.Duration(i)*time.Second, time.Hour
		connections = append(connections, mptcp.Connection{Token: mptcp.Token(i + 1), Subflows: []mptcp.Subflow{s}})
	}
	slices.Reverse(connections)
	const bytes = 3000
	told, left := fitting(connections, bytes)
	if len(told) < 10 || int(left) != 100-len(told) {
		t.Fatalf("%d told and %d left out of 100", len(told), left)
	}
	size := 0
	for i, c := range told {
		size += proto.Size(c)
		if c.Token != uint32(i+1) {
			t.Fatalf("connection %d is at position %d, expected the most recently active first", c.Token, i)
		}
	}
	if size > bytes {
		t.Fatalf("%d bytes, expected %d at most", size, bytes)
	}
}

func TestLinksReadTheirNamespace(t *testing.T) {
	client, _ := lab.Two(t)
	var links *Links
	client.Do(func() (err error) {
		links, err = OpenLinks()
		return err
	})
	defer links.Close()
	expect := func(up bool) {
		t.Helper()
		found, err := links.Read()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found, func(l Link) bool { return l.Name == "wifi" })
		if i < 0 || found[i].Up != up || !slices.Contains(found[i].Addresses, netip.MustParseAddr("10.1.0.1")) {
			t.Fatalf("%+v, expected wifi with 10.1.0.1, up: %v", found, up)
		}
	}
	expect(true)
	client.Run("ping", "-c", "1", "10.1.0.2")
	found, err := links.Read()
	if err != nil || found[slices.IndexFunc(found, func(l Link) bool { return l.Name == "wifi" })].BytesSent == 0 {
		t.Fatalf("%+v, %v, expected what the ping sent to be counted", found, err)
	}
	client.Run("ip", "link", "set", "wifi", "down")
	expect(false)
	addresses, err := links.Addresses()
	if err != nil || slices.ContainsFunc(addresses, netip.Addr.IsLoopback) || slices.ContainsFunc(addresses, netip.Addr.IsLinkLocalUnicast) {
		t.Fatalf("%v, %v, expected neither the loopback's nor link-local ones", addresses, err)
	}
}

func FuzzDecodeLinkAndAddress(f *testing.F) {
	link := make([]byte, unix.SizeofIfInfomsg, 64)
	link = binary.NativeEndian.AppendUint16(link, 8)
	link = binary.NativeEndian.AppendUint16(link, unix.IFLA_IFNAME)
	link = append(link, "lte\x00"...)
	address := make([]byte, unix.SizeofIfAddrmsg, 64)
	address = binary.NativeEndian.AppendUint16(address, 8)
	address = binary.NativeEndian.AppendUint16(address, unix.IFA_LOCAL)
	address = append(address, 10, 0, 1, 7)
	for _, seed := range [][]byte{nil, link, address, link[:len(link)-3], address[:len(address)-1]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeLink(b)
		decodeAddress(b)
	})
}
