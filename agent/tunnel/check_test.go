// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"bicast/api/agentv1"
)

func TestAnInvalidOrderIsRefused(t *testing.T) {
	executor := NewExecutor(nil, nil, nil, &fits{}, discard())
	good := &agentv1.Tunnel{Name: "dsl", Port: "tun", Vni: 1, UdpPort: 4789, Key: testKey}
	wrong := map[string]func(*agentv1.Tunnel){
		"no name": func(o *agentv1.Tunnel) { o.Name = "" }, "no port": func(o *agentv1.Tunnel) { o.Port = "" },
		"a long port": func(o *agentv1.Tunnel) { o.Port = strings.Repeat("x", 16) }, "a path": func(o *agentv1.Tunnel) { o.Port = "a/b" },
		"an option": func(o *agentv1.Tunnel) { o.Port = "--db=x" }, "two lines": func(o *agentv1.Tunnel) { o.Port = "a\n" },
		"a terminal's command": func(o *agentv1.Tunnel) { o.Port = "a\x1b[31mb" }, "a folder": func(o *agentv1.Tunnel) { o.Port = ".." },
		"a device of two lines": func(o *agentv1.Tunnel) { o.Device = "a;\n}" },
		"a long device":         func(o *agentv1.Tunnel) { o.Device = strings.Repeat("x", 16) },
		"no VNI":                func(o *agentv1.Tunnel) { o.Vni = 0 }, "a VNI of 25 bits": func(o *agentv1.Tunnel) { o.Vni = 1 << 24 },
		"no UDP port": func(o *agentv1.Tunnel) { o.UdpPort = 0 }, "the last UDP port": func(o *agentv1.Tunnel) { o.UdpPort = 65535 },
		"a name for an address": func(o *agentv1.Tunnel) { o.Remote = "far.example" }, "all hosts": func(o *agentv1.Tunnel) { o.Remote = "ff02::1" },
		"a short preshared key": func(o *agentv1.Tunnel) { o.Key = testKey[1:] },
		"a short public key":    func(o *agentv1.Tunnel) { o.PeerKey = testKey[1:] },
	}
	for name, spoil := range wrong {
		order := proto.Clone(good).(*agentv1.Tunnel)
		spoil(order)
		if said, err := executor.Order(&agentv1.Tunnels{Tunnels: []*agentv1.Tunnel{order}}); err == nil {
			t.Errorf("%s: %s", name, said)
		}
	}
	for name, order := range map[string][]*agentv1.Tunnel{"twice": {good, good}, "nine": make([]*agentv1.Tunnel, 9)} {
		if said, err := executor.Order(&agentv1.Tunnels{Tunnels: order}); err == nil {
			t.Errorf("%s: %s", name, said)
		}
	}
}
