// SPDX-License-Identifier: Apache-2.0

package mptcp_test

import (
	"strings"
	"testing"

	"bicast/internal/lab"
	"bicast/mptcp"
)

// setup makes endpoints with an interface, which binds their subflows to it.
func TestSwitchWorksForSubflowsBoundToAnInterface(t *testing.T) {
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

// Without a routing rule for the source address, only the binding selects the interface.
func TestAddSubflowUsesTheInterfaceOfItsAddress(t *testing.T) {
	b := &bench{t: t}
	b.client, b.server = lab.Two(t)
	b.handle, b.far = open(t, b.client), open(t, b.server)
	b.client.Run("ip", "rule", "del", "from", fromLTE)
	b.conn = b.client.Dial(b.server.Echo(lab.Service+":0"), fromWifi)
	b.exchange(b.conn)
	b.client.Blacken("wifi", "10.1.0.2")
	b.add(fromLTE)
	b.exchange(b.conn)
}

func TestHardSwitchBindsTheReopenedPathToItsInterface(t *testing.T) {
	b := newBench(t, mptcp.KernelManager)
	b.prefer(fromLTE, fromWifi, true)
	if said := b.client.Run("ip", "mptcp", "endpoint"); !strings.Contains(said, fromWifi+" id 2 subflow backup dev wifi") {
		t.Errorf("expected one of %s that is bound to wifi:\n%s", fromWifi, said)
	}
}
