package mptcp_test

import (
	"testing"

	"bicast/internal/lab"
	"bicast/mptcp"
)

// An endpoint that names its interface, as setup makes them, binds its subflows to that.
func TestAPathThatIsBoundToItsInterfaceIsSwitchedLikeAnyOther(t *testing.T) {
	b := &bench{t: t}
	b.client, b.server = lab.Two(t)
	b.handle, b.far = open(t, b.client), open(t, b.server)
	b.client.Run("ip", "mptcp", "limits", "set", "subflows", "2")
	b.client.Run("ip", "mptcp", "endpoint", "add", fromWifi, "dev", "wifi", "subflow")
	b.client.Run("ip", "mptcp", "endpoint", "add", fromLTE, "dev", "lte", "subflow", "backup")
	events, err := b.handle.Events(b.soon())
	must(t, err)
	b.conn = b.client.Dial(b.server.Echo(lab.Service+":0"), fromWifi)
	b.exchange(b.conn)
	for event := range events {
		if event.Kind == mptcp.SubflowEstablished {
			break
		}
	}
	b.prefer(fromLTE, fromWifi, false)
	if wifi, lte := b.moved(); wifi != 0 || lte < megabyte {
		t.Errorf("after switching to LTE, Wi-Fi carried %d bytes and LTE %d", wifi, lte)
	}
}
