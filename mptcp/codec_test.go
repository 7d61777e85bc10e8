// SPDX-License-Identifier: Apache-2.0

package mptcp

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// captured returns a message of a real kernel (6.18), also a seed of the fuzz tests.
func captured(t *testing.T, target, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "fuzz", target, name))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	quoted := strings.TrimSuffix(strings.TrimPrefix(lines[len(lines)-1], "[]byte("), ")")
	b, err := strconv.Unquote(quoted)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(b)
}

func TestSubflowDecodesACapturedMessage(t *testing.T) {
	s, err := parseSocket(captured(t, "FuzzSocket", "client-protocol6-family2-0"))
	if err != nil {
		t.Fatal(err)
	}
	got := s.subflow()
	if got.Local.Addr() != netip.MustParseAddr("10.1.0.1") || got.Remote.Addr() != netip.MustParseAddr("10.9.9.9") {
		t.Errorf("ends: %v", got)
	}
	if s.token == 0 || !got.Established || got.Backup() || got.mapped || got.LocalID != 0 || got.MSSBytes < 1000 {
		t.Errorf("got %+v", got)
	}
	if got.BytesAcked < 5000 || got.BytesReceived != 5000 || got.SRTT <= 0 || got.SRTT > time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestSubflowUnmapsIPv4AndEndpointMapsItAgain(t *testing.T) {
	s, err := parseSocket(captured(t, "FuzzSocket", "server-protocol6-family10-1"))
	if err != nil {
		t.Fatal(err)
	}
	subflow := s.subflow()
	if subflow.Local.Addr() != netip.MustParseAddr("10.9.9.9") {
		t.Errorf("read as %v", subflow.Local)
	}
	if written := subflow.endpoint(subflow.Local).Address; written != netip.MustParseAddr("::ffff:10.9.9.9") {
		t.Errorf("written as %v", written)
	}
}

func TestConnectionDecodesMessagesOfNewAndOldKernels(t *testing.T) {
	s, err := parseSocket(captured(t, "FuzzSocket", "client-protocol262-family2-0"))
	if err != nil {
		t.Fatal(err)
	}
	now := s.connection()
	if now.token == 0 || now.fallback || !now.counts || now.bytesAcked != 5000 || now.bytesReceived != 5000 || now.extra != 1 {
		t.Errorf("got %+v", now)
	}
	s.info = s.info[:48] // the length in Linux 5.19
	if then := s.connection(); then.token != now.token || then.counts || then.bytesAcked != 0 {
		t.Errorf("got %+v", then)
	}
}

func TestConnectionSumsSubflowBytesOnOldKernels(t *testing.T) {
	whole, err := parseSocket(captured(t, "FuzzSocket", "client-protocol262-family2-0"))
	if err != nil {
		t.Fatal(err)
	}
	whole.info = whole.info[:48]
	part, err := parseSocket(captured(t, "FuzzSocket", "client-protocol6-family2-0"))
	if err != nil {
		t.Fatal(err)
	}
	got := joinDumps([]socket{whole}, []socket{part, part})
	if len(got) != 1 || got[0].BytesReceived != 10000 {
		t.Errorf("got %+v", got)
	}
}

func TestJoinDumpsDropsSocketsInOneDumpOnly(t *testing.T) {
	part, err := parseSocket(captured(t, "FuzzSocket", "client-protocol6-family2-0"))
	if err != nil {
		t.Fatal(err)
	}
	if got := joinDumps(nil, []socket{part}); len(got) != 0 {
		t.Errorf("a subflow whose connection has ended is shown as %+v", got)
	}
}

func TestSubflowsWithEqualEndsAndOtherCookiesDiffer(t *testing.T) {
	one := Subflow{Local: netip.MustParseAddrPort("10.1.0.1:1"), Remote: netip.MustParseAddrPort("10.9.9.9:2"), Cookie: 1, Established: true}
	later := one
	later.Cookie = 2
	if found := (Connection{Subflows: []Subflow{later}}).matching([]Subflow{one}); len(found) != 0 {
		t.Errorf("got %v", found)
	}
}

func TestEventDecodesACapturedMessage(t *testing.T) {
	data := captured(t, "FuzzEvent", "04-subflow_closed")
	got, err := decodeEvent(genetlink.Message{Header: genetlink.Header{Command: uint8(SubflowClosed)}, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != SubflowClosed || got.Errno.Error() != "connection refused" || got.Remote.String() != "10.2.0.2:9" {
		t.Errorf("got %+v", got)
	}
}

func FuzzSocket(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSocket(b)
		if err != nil {
			return
		}
		for _, c := range joinDumps([]socket{s}, []socket{s, s}) {
			if c.Token == 0 && len(c.Subflows) != 1 {
				t.Errorf("a plain connection of %d subflows", len(c.Subflows))
			}
			for _, one := range c.Subflows {
				if one.Local.Addr().Is4In6() || one.Remote.Addr().Is4In6() {
					t.Errorf("%v is not a plain address", one)
				}
				if one.mapped && !one.endpoint(one.Local).Address.Is4In6() {
					t.Errorf("%v is not written as it was read", one)
				}
			}
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := decodeEndpoint(b)
		if err != nil {
			return
		}
		encoder := netlink.NewAttributeEncoder()
		encodeEndpoint(encoder, attributeAddress, first)
		written, err := encoder.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeEndpoint(written); err != nil || again != first {
			t.Errorf("%+v was written and read as %+v, %v", first, again, err)
		}
	})
}

func FuzzLimits(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		limits, err := decodeLimits(b)
		if err == nil && (limits.Extra < 0 || limits.Announced < 0) {
			t.Errorf("got %+v", limits)
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		event, err := decodeEvent(genetlink.Message{Header: genetlink.Header{Command: kind}, Data: b})
		if err == nil && (event.Kind != EventKind(kind) || event.Kind.String() == "") {
			t.Errorf("got %+v", event)
		}
	})
}
