// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"bicast/internal/lab"
	"bicast/relay/internal/httpconnect"
)

func TestPublicAcceptsOnlyGlobalAddresses(t *testing.T) {
	for _, never := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1",
		"127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1",
		"239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:45.0.0.2", "64:ff9b::7f00:1", "64:ff9b::a00:1",
		"64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
		"2002:a00:1::1", "3fff::1", "3fff:fff::1", "5f00::1", "fc00::1", "fd01::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
	} {
		if Public(netip.MustParseAddr(never)) == nil {
			t.Errorf("%s may be reached", never)
		}
	}
	for _, public := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "45.0.0.2", "100.63.255.255", "100.128.0.1", "126.1.1.1", "128.0.0.1",
		"168.63.129.17", "169.253.1.1", "172.15.255.255", "172.32.0.1", "192.0.1.1", "192.167.1.1", "192.169.0.1", "198.17.1.1",
		"198.20.0.1", "223.255.255.255", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db9::1", "2003::1", "2606:4700::1111", "2a0f::2",
		"3ffe::1",
	} {
		if err := Public(netip.MustParseAddr(public)); err != nil {
			t.Errorf("%s may not be reached: %v", public, err)
		}
	}
}

// relay returns a relay host with several addresses, and a host behind it.
func relay(t *testing.T) (own, beyond *lab.Host) {
	own, beyond = lab.One(t), lab.One(t)
	own.Run("ip", "link", "add", "out", "type", "veth", "peer", "name", "out", "netns", beyond.Path())
	for host, addresses := range map[*lab.Host][]string{own: {"45.0.0.1/24", "46.0.0.1/32", "2a0f::1/64"}, beyond: {"45.0.0.2/24", "2a0f::2/64"}} {
		host.Run("ip", "link", "set", "out", "up")
		for _, address := range addresses {
			host.Run("ip", "address", "add", address, "dev", "out", "nodad")
		}
	}
	for until := time.Now().Add(time.Minute); own.Run("ip", "-6", "route", "show", "table", "local", "2a0f::1") == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("2a0f::1 is not this host's own after a minute of a device that is up")
		}
	}
	own.Run("ip", "route", "add", "local", "47.0.0.0/24", "dev", "lo")
	own.Run("ip", "route", "add", "blackhole", "48.0.0.0/24")
	return own, beyond
}

func TestBeyondRecognizesTheRelaysOwnAddresses(t *testing.T) {
	own, _ := relay(t)
	own.Do(func() error {
		kernel, err := OpenKernel()
		if err != nil {
			return err
		}
		defer kernel.Close()
		for address, want := range map[string]func(error) bool{
			"45.0.0.1": isOwn, "46.0.0.1": isOwn, "45.0.0.255": isOwn, "2a0f::1": isOwn, "47.0.0.9": isOwn, "127.0.0.1": isOwn, "::1": isOwn,
			"45.0.0.2": isBeyond, "2a0f::2": isBeyond, "48.0.0.1": hasNoRoute, "1.1.1.1": hasNoRoute, "2606::1": hasNoRoute,
		} {
			if err := kernel.Beyond(netip.MustParseAddr(address)); !want(err) {
				t.Errorf("of %s the kernel says: %v", address, err)
			}
		}
		return nil
	})
}

func isOwn(err error) bool      { return err != nil && !errors.Is(err, ErrNoRoute) }
func isBeyond(err error) bool   { return err == nil }
func hasNoRoute(err error) bool { return errors.Is(err, ErrNoRoute) }

func here(_ context.Context, work func() error) error { return work() }

func TestConnectUsesTheCheckedAddressesOfOneLookup(t *testing.T) {
	own, beyond := relay(t)
	var listener net.Listener
	beyond.Do(func() (err error) {
		listener, err = net.Listen("tcp", "45.0.0.2:80")
		return err
	})
	defer listener.Close()
	for _, c := range []struct {
		answers [][]string // by query
		to      string     // "": nowhere
		code    int
	}{
		{answers: [][]string{{"45.0.0.2"}, {"127.0.0.1"}}, to: "45.0.0.2:80"},
		{answers: [][]string{{"127.0.0.1"}, {"45.0.0.2"}}, code: httpconnect.Forbidden},
		{answers: [][]string{{"127.0.0.1", "10.0.0.1", "45.0.0.2"}, {"10.0.0.1"}}, to: "45.0.0.2:80"},
		{answers: [][]string{{"45.0.0.1"}}, code: httpconnect.Forbidden},
		{answers: [][]string{{"::ffff:127.0.0.1"}}, code: httpconnect.Forbidden},
		{answers: [][]string{{"1.1.1.1"}}, code: httpconnect.Unable},
		{answers: [][]string{{"2a0f::2"}}, code: httpconnect.Refused}, // no listener there
		{answers: [][]string{{"2a0f::2", "45.0.0.2"}}, to: "45.0.0.2:80"},
		{answers: [][]string{{}}, code: httpconnect.Refused},
	} {
		asked := 0
		own.Do(func() error {
			kernel, err := OpenKernel()
			if err != nil {
				return err
			}
			defer kernel.Close()
			r := Reach{Routes: kernel, Within: here, Resolve: func(context.Context, string) (found []netip.Addr, err error) {
				for _, address := range c.answers[asked] {
					found = append(found, netip.MustParseAddr(address))
				}
				asked++
				return found, nil
			}}
			conn, refusal := r.Connect(context.Background(), httpconnect.Target{Name: "a.example", Port: 80}, nil)
			switch {
			case conn != nil && c.to != "" && conn.RemoteAddr().String() == c.to:
				conn.Close()
			case conn == nil && refusal.Code == c.code:
			default:
				t.Errorf("%v: %v and %v, expected %q or %d", c.answers, conn, refusal, c.to, c.code)
			}
			return nil
		})
		if asked != 1 {
			t.Errorf("%v: resolved %d times, expected once", c.answers, asked)
		}
	}
}

func TestConnectReportsResolverFailures(t *testing.T) {
	for err, code := range map[error]int{
		&net.DNSError{IsNotFound: true}: httpconnect.Refused, &net.DNSError{IsTimeout: true}: httpconnect.Unanswering,
		context.DeadlineExceeded: httpconnect.Unanswering, &net.DNSError{}: httpconnect.Unable,
	} {
		r := Reach{Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, err }}
		if _, refusal := r.Connect(context.Background(), httpconnect.Target{Name: "a.example", Port: 80}, nil); refusal == nil || refusal.Code != code {
			t.Errorf("%v: %v, expected %d", err, refusal, code)
		}
	}
}
